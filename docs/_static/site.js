/* Folds that open for whom they concern, words of the glossary on touch, tables that sort, boxes
   that scroll. */
"use strict";

const FOLDS = "article details";

function openAround(element) {
  for (let at = element; at; at = at.parentElement) {
    if (at instanceof HTMLDetailsElement) at.open = true;
  }
}

function idInAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return ""; // a broken escape names nothing
  }
}

/* A link into a fold, or to its heading, opens it: also from the search and the list of contents. */
function openTarget() {
  const id = idInAddress();
  const target = id && document.getElementById(id);
  if (!target) return;
  openAround(target);
  const own = target.querySelector(":scope > details.fold");
  if (own) own.open = true;
  target.scrollIntoView({ behavior: "instant" });
}

/* One button opens all folded sections of the page, and closes them again. */
function addOpenAll() {
  const folds = [...document.querySelectorAll("article details.fold")];
  if (folds.length < 2) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "open-all";
  const isAllOpen = () => folds.every((fold) => fold.open);
  const tell = () => { button.textContent = isAllOpen() ? "Close all" : "Open all"; };
  button.addEventListener("click", () => {
    const open = !isAllOpen();
    for (const fold of folds) fold.open = open;
  });
  for (const fold of folds) fold.addEventListener("toggle", tell);
  tell();
  folds[0].closest("section").before(button);
}

/* On paper nothing is folded, and every picture is there. */
let closed = [];
window.addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll(FOLDS)].filter((fold) => !fold.open);
  for (const fold of closed) fold.open = true;
  for (const image of document.querySelectorAll("img[loading=lazy]")) image.loading = "eager";
});
window.addEventListener("afterprint", () => {
  for (const fold of closed) fold.open = false;
});

/* The sentence of a word stays inside of the window. With a touch the first one shows it, the
   second follows the link; Escape hides it. */
function keepInside(meaning) {
  meaning.style.marginLeft = "";
  const { left, right } = meaning.getBoundingClientRect();
  const width = document.documentElement.clientWidth;
  if (right > width - 8) meaning.style.marginLeft = `${width - 8 - right}px`;
  else if (left < 8) meaning.style.marginLeft = `${8 - left}px`;
}

function addMeanings() {
  let touched = null;
  const hide = () => {
    for (const one of document.querySelectorAll("a.term.shows")) one.classList.remove("shows");
  };
  for (const word of document.querySelectorAll("a.term")) {
    const meaning = word.nextElementSibling;
    const show = () => { meaning.classList.remove("away"); keepInside(meaning); };
    word.addEventListener("pointerenter", show);
    word.addEventListener("focus", show);
    word.addEventListener("pointerdown", (event) => {
      touched = event.pointerType === "touch" && !word.classList.contains("shows") ? word : null;
    });
    word.addEventListener("click", (event) => {
      if (touched !== word) return;
      event.preventDefault();
      hide();
      word.classList.add("shows");
      show();
    });
  }
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest("a.term")) hide();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    hide();
    for (const one of document.querySelectorAll(".meaning")) one.classList.add("away");
  });
}

/* A click on a column's head sorts the rows by it, and a second one turns their order around. */
function addSorting(table) {
  const [head, body] = [table.tHead.rows[0], table.tBodies[0]];
  const valueOf = (row, at) => row.cells[at].textContent;
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  for (const [at, cell] of [...head.cells].entries()) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...cell.childNodes);
    cell.append(button);
    button.addEventListener("click", () => {
      const isNumber = body.rows[0].cells[at].className === "number";
      const turned = cell.ariaSort === (isNumber ? "descending" : "ascending") ? -1 : 1;
      const rows = [...body.rows].sort((row, other) => {
        const [one, two] = [valueOf(row, at), valueOf(other, at)];
        return turned * (isNumber ? Number(two) - Number(one) : compare(one, two));
      });
      body.append(...rows);
      for (const other of head.cells) other.ariaSort = null;
      cell.ariaSort = isNumber === (turned === 1) ? "descending" : "ascending";
    });
  }
}

/* What is wider than its box can be scrolled with the keyboard, too. */
function makeScrollable() {
  const boxes = ".shown, .shown div, figure.picture, .code-page, .table-wrapper, article pre";
  for (const box of document.querySelectorAll(boxes)) {
    const scrolls = getComputedStyle(box).overflowX === "auto" && box.scrollWidth > box.clientWidth;
    if (scrolls) box.tabIndex = 0;
  }
}

addOpenAll();
addMeanings();
document.querySelectorAll("table.sortable").forEach(addSorting);
window.addEventListener("hashchange", openTarget);
window.addEventListener("load", () => {
  for (const found of document.querySelectorAll("details span.highlighted")) openAround(found);
  openTarget();
  makeScrollable();
});
document.addEventListener("toggle", makeScrollable, true);
