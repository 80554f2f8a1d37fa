// A slider through the frames of a kernel's way, to play or to move: .gemmlab-player, which
// gemmlab/site/players.py makes.
"use strict";

(() => {
  class Player {
    constructor(root) {
      this.root = root;
      const find = (selector) => root.querySelector(selector);
      this.slider = find("input.gemmlab-frame");
      this.track = find("input.gemmlab-track"); // none where there is one way alone
      [this.back, this.play, this.next] = root.querySelectorAll("button");
      [this.image, this.caption] = [find("img"), find("figcaption")];
      this.moves = 0; // how many there were: an answer to an earlier one comes too late
      this.timer = 0;
      this.slider.addEventListener("input", () => this.show());
      this.track?.addEventListener("input", () => this.show());
      this.back.addEventListener("click", () => this.step(-1));
      this.next.addEventListener("click", () => this.step(1));
      this.play.addEventListener("click", () => (this.timer ? this.stop() : this.start()));
      for (const one of [this.slider, this.track, this.back, this.play, this.next]) {
        if (one) one.disabled = false;
      }
      // Whoever asks for less motion steps by hand.
      const still = window.matchMedia("(prefers-reduced-motion: reduce)");
      const respect = () => {
        this.play.hidden = still.matches;
        if (still.matches) this.stop();
      };
      still.addEventListener("change", respect);
      respect();
    }

    get atEnd() {
      return Number(this.slider.value) >= Number(this.slider.max);
    }

    step(by) {
      this.stop();
      this.slider.value = Number(this.slider.value) + by;
      return this.show();
    }

    start() {
      if (this.atEnd) this.slider.value = 1;
      this.play.textContent = "Pause";
      this.caption.setAttribute("aria-live", "off"); // else each frame interrupts the one before
      this.show();
      this.timer = setInterval(() => {
        this.slider.value = Number(this.slider.value) + 1;
        this.show();
        if (this.atEnd) this.stop();
      }, Number(this.root.dataset.interval));
    }

    stop() {
      clearInterval(this.timer);
      this.timer = 0;
      this.play.textContent = "Play";
      this.caption.setAttribute("aria-live", "polite");
    }

    async show() {
      const move = ++this.moves;
      const { name, data, pictures } = this.root.dataset;
      try {
        const tracks = await window.gemmlab.load(name, data);
        if (move !== this.moves) return;
        const { value, frames } = tracks[this.track ? Number(this.track.value) : 0];
        if (this.track) {
          this.track.setAttribute("aria-valuetext", value);
          this.track.nextElementSibling.value = value;
        }
        this.slider.max = frames.length; // a value above it becomes it
        const at = Number(this.slider.value) - 1;
        this.slider.nextElementSibling.value = `${at + 1} of ${frames.length}`;
        const [picture, words] = frames[at];
        await window.gemmlab.picture(pictures + picture);
        if (move !== this.moves) return;
        [this.image.src, this.image.alt, this.caption.textContent] = [pictures + picture, words, words];
        for (const near of [at - 1, at + 1]) {
          if (frames[near]) window.gemmlab.prefetch(pictures + frames[near][0]);
        }
      } catch (problem) {
        this.stop();
        this.caption.textContent = `No picture: ${problem.message}.`;
      }
    }
  }

  for (const root of document.querySelectorAll(".gemmlab-player")) new Player(root);
})();
