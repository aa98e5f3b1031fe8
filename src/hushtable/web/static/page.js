// Behavior that htmx does not provide: copying commands, going back, and dragging in a tree.
"use strict";

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if ("back" in button.dataset) history.back();
  if ("copy" in button.dataset) {
    const text = button.closest(".command").querySelector("pre").textContent;
    navigator.clipboard.writeText(text).then(() => {
      const before = button.textContent;
      button.textContent = "✓";
      setTimeout(() => { button.textContent = before; }, 1500);
    });
  }
});

// Show only the lines of a grid that contain the text of its filter.
document.addEventListener("input", (event) => {
  const grid = document.getElementById(event.target.dataset.filter || "");
  if (!grid) return;
  const wanted = event.target.value.toLowerCase();
  for (const line of grid.querySelectorAll("tbody tr:not(.group)")) {
    line.hidden = !line.textContent.toLowerCase().includes(wanted);
  }
  for (const body of grid.tBodies) {
    body.hidden = ![...body.rows].some((line) => !line.hidden && !line.matches(".group"));
  }
});

// Sort the lines of a grid, inside their groups, by the column of a pressed button.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-sort]");
  if (!button) return;
  const [head, place] = [button.closest("th"), Number(button.dataset.sort)];
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const text = (line) => line.children[place].innerText;
  for (const body of head.closest("table").tBodies) {
    const lines = [...body.rows].filter((line) => !line.matches(".group"));
    lines.sort((a, b) => text(a).localeCompare(text(b), "en", { numeric: true }) * (down ? -1 : 1));
    body.append(...lines);
  }
});

// Keep a slider and its field in sync.
document.addEventListener("input", (event) => {
  const given = event.target;
  if (given.dataset.slides) {
    const field = document.getElementById(given.dataset.slides);
    const number = Math.pow(10, Number(given.value));
    field.value = "whole" in given.dataset
      ? Math.round(Number(number.toPrecision(2))).toString()
      : Number(number.toPrecision(2)).toFixed(12).replace(/\.?0+$/, "");
  } else if (given.dataset.slider) {
    const slider = document.getElementById(given.dataset.slider);
    const number = Number(given.value);
    if (slider && number > 0) slider.value = Math.log10(number);
  }
});

// Dragging a value or group onto a group submits the "move" form.
let dragged = null;
document.addEventListener("dragstart", (event) => {
  dragged = event.target.closest("[data-node]");
  if (dragged) event.dataTransfer.effectAllowed = "move";
});
function mark(group) {
  for (const other of document.querySelectorAll(".over")) other.classList.remove("over");
  if (group) group.classList.add("over");
}
document.addEventListener("dragover", (event) => {
  const group = dragged && event.target.closest("[data-group]");
  const fits = group && !dragged.contains(group);
  mark(fits ? group : null);
  if (fits) event.preventDefault();
});
document.addEventListener("dragend", () => {
  mark(null);
  dragged = null;
});
document.addEventListener("drop", (event) => {
  const group = dragged && event.target.closest("[data-group]");
  if (!group || dragged.contains(group)) return;
  event.preventDefault();
  const form = dragged.closest("[data-tree]").querySelector("form[data-move]");
  form.elements.node.value = dragged.dataset.node;
  form.elements.to.value = group.dataset.group;
  dragged = null;
  form.requestSubmit();
});

// Sliders start at the values of their fields; a select with data-submit is submitted on change.
function prepare() {
  for (const slider of document.querySelectorAll("input[data-start]")) {
    const number = Number(slider.dataset.start);
    if (number > 0) slider.value = Math.log10(number);
  }
}
document.addEventListener("DOMContentLoaded", prepare);

// Break long commands between words, not inside an option.
function keepWords(part) {
  for (const shown of part.querySelectorAll(".command pre:not(:has(span))")) {
    const words = shown.textContent.split(/([ \n]+)/).map((word, n) => {
      if (n % 2) return word;
      const span = document.createElement("span");
      span.textContent = word;
      return span;
    });
    shown.replaceChildren(...words);
  }
}
document.addEventListener("DOMContentLoaded", () => keepWords(document));
document.addEventListener("htmx:load", (event) => keepWords(event.target));
document.addEventListener("change", (event) => {
  if ("submit" in event.target.dataset) event.target.form.requestSubmit();
  if ("all" in event.target.dataset) {
    // In the grid, "all" means all visible lines; the box of the head skips confirmed ones.
    const place = event.target.closest(event.target.dataset.all || "fieldset");
    const head = event.target.dataset.all === "table";
    for (const box of place.querySelectorAll("input[type=checkbox]")) {
      if (!box.closest("tr[hidden]") && !(head && "done" in box.dataset)) {
        box.checked = event.target.checked;
      }
    }
  }
  const form = event.target.closest("form[data-autosave]");
  if (form && form.reportValidity()) {
    form.requestSubmit();
  }
});

// Restore the scroll position after a change reloads the page.
document.addEventListener("submit", () => {
  sessionStorage.setItem("scroll", `${location.pathname} ${window.scrollY}`);
});
document.addEventListener("DOMContentLoaded", () => {
  const [path, place] = (sessionStorage.getItem("scroll") || "").split(" ");
  sessionStorage.removeItem("scroll");
  if (path === location.pathname && place) window.scrollTo(0, Number(place));
});
