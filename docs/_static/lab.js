// Sliders for the settings of a rung, and the picture that follows them: .gemmlab-lab, which
// gemmlab/site/labs.py makes.
"use strict";

(() => {
  const SLOW = 250; // milliseconds, after which a reader is told that something is on its way

  function element(name, attributes = {}, ...content) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...content);
    return made;
  }

  // What is wide scrolls in a box of its own, which the keyboard reaches.
  function scrolling(table, words) {
    return element("div", { class: "gemmlab-wide", tabindex: 0, role: "group", "aria-label": words }, table);
  }

  // The kernel's source with what each line costs, as gl.heat shows it: a sentence and a table.
  function linesShown({ caption, kinds, rows }, source, title) {
    const heads = ["line", ...kinds.flatMap((kind) => [kind, "share"]), "source"];
    const head = heads.map((words) => element("th", { scope: "col" }, words));
    const empty = () => element("td", { colspan: 2 * kinds.length });
    const body = rows.map((row) => {
      if (typeof row === "number") {
        const words = `… ${-row} lines without traffic`;
        const cells = [element("td"), empty(), element("td", { class: "gemmlab-folded" }, words)];
        return element("tr", {}, ...cells);
      }
      const [line, ...costs] = row;
      const cells = costs.flatMap(([count, words, share], at) => {
        const look = count ? { class: `gemmlab-${kinds[at]}`, style: `--share: ${share}` } : {};
        return [element("td", look, count), element("td", look, words)];
      });
      const number = element("th", { scope: "row" }, String(line));
      const code = element("td", {}, element("code", {}, source[line - 1]));
      return element("tr", {}, number, ...(cells.length ? cells : [empty()]), code);
    });
    const table = element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...body),
    );
    return [element("p", {}, caption), scrolling(table, title)];
  }

  function numbersShown(names, values, title) {
    const rows = names.map(([quantity, unit], at) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, quantity),
        element("td", {}, values[at]),
        element("td", {}, unit),
      ),
    );
    return [scrolling(element("table", {}, element("tbody", {}, ...rows)), title)];
  }

  class Lab {
    constructor(root) {
      this.root = root;
      const find = (selector) => root.querySelector(selector);
      this.sliders = [...root.querySelectorAll("input[type=range]")];
      this.values = this.sliders.map((slider) => slider.dataset.values.split(" "));
      [this.status, this.offer] = [find(".gemmlab-status"), find(".gemmlab-offer")];
      [this.figure, this.image, this.caption] = [find("figure"), find("img"), find("figcaption")];
      this.details = [...root.querySelectorAll("details")];
      this.moves = 0; // how many there were: an answer to an earlier one comes too late
      this.moved = []; // places of the parameters that moved last
      this.changes = []; // what the offer's button does
      this.view = null;
      for (const [at, slider] of this.sliders.entries()) {
        slider.addEventListener("input", () => this.move([at]));
        slider.disabled = false;
      }
      this.offer.addEventListener("click", () => this.takeOffer());
      for (const one of this.details) one.addEventListener("toggle", () => this.showDetails());
      for (const event of ["pointerenter", "pointerdown", "focusin"]) {
        root.addEventListener(event, () => this.ready().catch(() => {}), { once: true });
      }
    }

    get settings() {
      return this.sliders.map((slider) => Number(slider.value));
    }

    // The rung's data, and the rules made of it.
    async ready() {
      const { rung, data } = this.root.dataset;
      this.data = await window.gemmlab.load(rung, data);
      this.answer ??= window.gemmlab.labRules(this.data);
    }

    move(moved) {
      this.moved = moved;
      for (const at of moved) this.showValue(at);
      return this.show();
    }

    showValue(at) {
      const slider = this.sliders[at];
      const value = this.values[at][slider.value];
      slider.setAttribute("aria-valuetext", value);
      slider.nextElementSibling.value = value;
    }

    async show() {
      const move = ++this.moves;
      const late = () => move !== this.moves;
      const slow = setTimeout(() => late() || this.say("Loading …"), SLOW);
      try {
        await this.ready();
        const answer = this.answer(this.settings, this.moved);
        if (answer.view) await window.gemmlab.picture(this.address(answer.view));
        if (late()) return;
        this.say(answer.words ?? "", Boolean(answer.words));
        this.view = answer.view ?? null;
        this.showView();
        this.makeOffer(answer.changes ?? [], answer.use);
        this.prefetch();
      } catch (problem) {
        if (!late()) this.say(`No picture: ${problem.message}. Move a slider to try again.`, true);
      } finally {
        clearTimeout(slow);
      }
    }

    address(view) {
      return this.root.dataset.pictures + view.picture;
    }

    say(words, refused = false) {
      this.status.textContent = words;
      this.status.classList.toggle("gemmlab-refused", refused);
    }

    showView() {
      const { view } = this;
      this.figure.hidden = !view;
      for (const one of this.details) one.hidden = !view;
      if (!view) return;
      [this.image.src, this.image.alt] = [this.address(view), view.said[0]];
      this.caption.replaceChildren(
        ...view.said.flatMap((words, at) => (at ? [element("br"), words] : [words])),
      );
      this.showDetails();
    }

    // Tables are made only where they are seen.
    async showDetails() {
      const [lines, numbers] = this.details;
      if (!lines.open && !numbers.open) return;
      if (!this.view) {
        await this.ready().catch((problem) => this.say(problem.message, true));
        this.view = this.answer?.(this.settings, []).view;
        if (!this.view) return;
      }
      const fill = (details, shown) => {
        const [title, box] = details.children;
        if (details.open) box.replaceChildren(...shown(title.textContent));
      };
      fill(lines, (title) => linesShown(this.view.lines, this.data.source, title));
      fill(numbers, (title) => numbersShown(this.data.numbers, this.view.numbers, title));
    }

    // Mark what a way out changes, and show its button.
    makeOffer(changes, words) {
      this.changes = changes;
      for (const mark of this.root.querySelectorAll(".gemmlab-other")) mark.textContent = "";
      for (const [at, place] of changes) {
        const control = this.sliders[at].closest(".gemmlab-control");
        control.querySelector(".gemmlab-other").textContent = ` → ${this.values[at][place]}`;
      }
      this.offer.hidden = !changes.length;
      this.offer.textContent = words ?? "";
    }

    takeOffer() {
      const { changes } = this;
      for (const [at, place] of changes) this.sliders[at].value = place;
      this.sliders[changes[0][0]].focus(); // the button goes
      return this.move(changes.map(([at]) => at));
    }

    // What one step of a slider leads to.
    prefetch() {
      const { settings } = this;
      for (const at of settings.keys()) {
        for (const step of [-1, 1]) {
          const values = settings.map((place, other) => this.values[other][place + (other === at) * step]);
          const view = this.data.views[values.join(" ")];
          if (view) window.gemmlab.prefetch(this.address(view));
        }
      }
    }
  }

  for (const root of document.querySelectorAll(".gemmlab-lab")) new Lab(root);
})();
