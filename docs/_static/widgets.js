// Sliders on a page and the picture that follows them: .gemmlab-widget. The page has them from
// Python, with all answers, which are fetched when a reader touches a slider.
//
// A data file is a script that calls gemmlab.take(name, data), not JSON: of a site that is opened
// from a folder, browsers load scripts and nothing else.
"use strict";

window.gemmlab = { data: {}, take: (name, data) => (window.gemmlab.data[name] = data) };

class Widget {
  constructor(root) {
    const find = (selector) => root.querySelector(selector);
    Object.assign(this, root.dataset); // name, folder, interval
    this.root = root;
    this.sliders = [...root.querySelectorAll("input[type=range]")];
    this.values = this.sliders.map((slider) => slider.dataset.values.split(" "));
    [this.status, this.offer] = [find(".gemmlab-status"), find(".gemmlab-offer")];
    [this.figure, this.image, this.caption] = [find("figure"), find("img"), find("figcaption")];
    this.details = find("details");
    this.shown = this.place; // where the last picture is
    for (const [at, slider] of this.sliders.entries()) {
      slider.addEventListener("input", () => this.move(at));
      slider.disabled = false;
    }
    this.offer.addEventListener("click", () => this.takeOffer());
    for (const event of ["pointerenter", "pointerdown", "focusin"]) {
      root.addEventListener(event, () => this.load().catch(() => {}), { once: true });
    }
    if (Number(this.interval)) this.addPlaying();
  }

  get place() {
    return this.sliders.map((slider, at) => this.values[at][slider.value]).join(" ");
  }

  // A promise of the data. After a failure the next call tries again.
  load() {
    this.loading ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `${this.folder}${this.name}.js`;
      script.onload = () => resolve(window.gemmlab.data[this.name]);
      script.onerror = () => {
        this.loading = null;
        script.remove();
        reject(new Error(`${script.src} could not be loaded`));
      };
      document.head.append(script);
    });
    return this.loading;
  }

  async move(at) {
    for (const [other, slider] of this.sliders.entries()) {
      const value = this.values[other][slider.value];
      slider.setAttribute("aria-valuetext", value);
      slider.nextElementSibling.value = value;
    }
    let data;
    try {
      data = await this.load();
    } catch (problem) {
      this.status.textContent = `No picture: ${problem.message}. Move a slider to try again.`;
      return;
    }
    const view = data.views[this.place];
    const unknown = ["This page has no answer to these settings.", this.shown];
    const [words, near] = view ? ["", ""] : (data.answers[`${this.place}@${at}`] ?? unknown);
    this.status.textContent = words;
    this.makeOffer(near);
    this.figure.hidden = !view;
    if (this.details) this.details.hidden = !view;
    if (!view) return;
    this.shown = this.place;
    const [picture, said, numbers] = view;
    [this.image.src, this.image.alt] = [this.address(picture), said[0]];
    this.caption.replaceChildren(
      ...said.flatMap((words, at) => (at ? [document.createElement("br"), words] : [words])),
    );
    for (const [row, cell] of this.root.querySelectorAll(".gemmlab-number").entries()) {
      cell.textContent = numbers[row];
    }
    this.prefetch(data);
  }

  address(picture) {
    return `${this.folder}${this.name}/${picture}`;
  }

  // The pictures that one step of a slider leads to.
  prefetch(data) {
    for (const [at, slider] of this.sliders.entries()) {
      for (const step of [-1, 1]) {
        const place = this.place.split(" ");
        place[at] = this.values[at][Number(slider.value) + step];
        const view = data.views[place.join(" ")];
        if (view) new Image().src = this.address(view[0]);
      }
    }
  }

  // Mark what a way out changes, and show its button; "" for none.
  makeOffer(near) {
    this.changes = near
      .split(" ")
      .map((value, at) => [at, this.values[at].indexOf(value), value])
      .filter(([at, place]) => near && place !== Number(this.sliders[at].value));
    const words = this.changes.map(([at, , value]) => `${this.sliders[at].name}=${value}`);
    this.offer.hidden = !words.length;
    this.offer.textContent = `Use ${words.join(", ")}`;
    for (const mark of this.root.querySelectorAll(".gemmlab-other")) mark.textContent = "";
    for (const [at, , value] of this.changes) {
      const control = this.sliders[at].closest(".gemmlab-control");
      control.querySelector(".gemmlab-other").textContent = ` → ${value}`;
    }
  }

  takeOffer() {
    const { changes } = this;
    for (const [at, place] of changes) this.sliders[at].value = place;
    this.sliders[changes[0][0]].focus(); // the button goes
    return this.move(changes[0][0]);
  }

  // Buttons that move the last slider.
  addPlaying() {
    const [back, play, next] = this.root.querySelectorAll(".gemmlab-buttons button");
    const last = this.sliders.length - 1;
    const slider = this.sliders[last];
    const isAtEnd = () => Number(slider.value) >= Number(slider.max);
    let timer = 0;
    const stop = () => {
      clearInterval(timer);
      timer = 0;
      play.textContent = "Play";
      this.caption.setAttribute("aria-live", "polite");
    };
    const step = (by) => {
      slider.value = Number(slider.value) + by;
      this.move(last);
    };
    back.addEventListener("click", () => (stop(), step(-1)));
    next.addEventListener("click", () => (stop(), step(1)));
    play.addEventListener("click", () => {
      if (timer) return stop();
      if (isAtEnd()) step(-Number(slider.max));
      play.textContent = "Pause";
      this.caption.setAttribute("aria-live", "off"); // else each frame interrupts the one before
      timer = setInterval(() => {
        step(1);
        if (isAtEnd()) stop();
      }, Number(this.interval));
    });
    for (const button of [back, play, next]) button.disabled = false;
    // Whoever asks for less motion steps by hand.
    play.hidden = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  }
}

for (const root of document.querySelectorAll(".gemmlab-widget")) new Widget(root);
