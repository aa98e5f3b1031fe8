"use strict";
// Answers are [texts of value, low, high; numbers of value, low, high; places of notes].

/** Return the rows of an answer: [label, answer]; null if the file does not contain it. */
function lookUp(content, what, by, column, group) {
  const groupsOf = (name) => content.columns.find((one) => one.name === name).groups;
  const figure = what ? content.figures[what] : null;
  if (by === column && column) return null;
  if (figure) {
    if (by && column) return null;
    if (by) return groupsOf(by).map(([label], place) => [label, figure[by][place]]);
    return [column ? [groupsOf(column)[group][0], figure[column][group]] : ["all rows", figure[""][0]]];
  }
  if (by && column) {
    const [straight, turned] = [content.counts[by + "\n" + column], content.counts[column + "\n" + by]];
    if (!straight && !turned) return null;
    const [n, width] = [groupsOf(by).length, groupsOf(column).length];
    return groupsOf(by).map(([label], place) =>
      [label, straight ? straight[place * width + group] : turned[group * n + place]]);
  }
  if (by) return groupsOf(by).map(([label], place) => [label, content.counts[by][place]]);
  return [column ? [groupsOf(column)[group][0], content.counts[column][group]] : ["all rows", content.total]];
}

/** Return the WHERE clause of each row of an answer; "" for all rows. */
function clauses(content, by, column, group) {
  const clausesOf = (name) => content.columns.find((one) => one.name === name).groups.map((one) => one[1]);
  const condition = column ? clausesOf(column)[group] : "";
  if (!by) return [condition];
  const straight = content.counts[by + "\n" + column];
  return clausesOf(by).map((one) => !column ? one : straight ? `${one} AND ${condition}` : `${condition} AND ${one}`);
}

/** Return the ends of the axis: all values, and intervals as far as they are not much wider. */
function axis(rows, fromZero) {
  const known = rows.map((row) => row[1]).filter((a) => a[3] !== null);
  if (!known.length) return [0, 1];
  const values = known.map((a) => a[3]);
  const widths = known.filter((a) => a[4] !== null && a[5] !== null).map((a) => a[5] - a[4]).sort((a, b) => a - b);
  const space = Math.max(...values) - Math.min(...values) + 2 * (widths[widths.length >> 1] || 0);
  const low = Math.max(Math.min(...known.map((a) => a[4] === null ? Infinity : a[4]), ...values), Math.min(...values) - space);
  const high = Math.min(Math.max(...known.map((a) => a[5] === null ? -Infinity : a[5]), ...values), Math.max(...values) + space);
  if (fromZero) return [0, Math.max(high, 1)];
  return high - low < 1e-12 ? [low - 0.5, high + 0.5] : [low, high];
}

function escaped(text) {
  return String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
}

/** Return the answer as an SVG drawing. */
function drawing(rows, title, fromZero, width = 720) {
  const left = width < 560 ? 120 : 210;
  const [right, top, step] = [width - 20, title ? 40 : 10, 24];
  const [low, high] = axis(rows, fromZero);
  const x = (value) => left + (Math.min(Math.max(value, low), high) - low) / (high - low) * (right - left);
  const bottom = top + step * rows.length;
  const unit = 10 ** Math.floor(Math.log10((high - low) / 4));
  const tick = [1, 2, 5, 10].map((s) => s * unit).find((s) => (high - low) / s <= 5);
  const parts = title ? [`<text x="10" y="20" font-weight="600">${escaped(title)}, with 95% intervals</text>`] : [];
  for (let n = Math.ceil(low / tick - 1e-9); n * tick <= high + 1e-9 * tick; n++) {
    const label = Number((n * tick).toPrecision(10)).toLocaleString("en-US", { maximumFractionDigits: 6 });
    parts.push(`<line class="grid" x1="${x(n * tick)}" x2="${x(n * tick)}" y1="${top}" y2="${bottom}"/>`,
      `<text class="soft" text-anchor="middle" x="${x(n * tick)}" y="${bottom + 17}">${label}</text>`);
  }
  rows.forEach(([label, a], place) => {
    const y = top + step * (place + 0.5);
    const most = Math.floor(left / 8.2);
    const short = label.length > most ? label.slice(0, most - 1) + "\u2026" : label;
    parts.push(`<text text-anchor="end" x="${left - 8}" y="${y + 4}">${escaped(short)}</text>`);
    if (a[3] === null) { parts.push(`<text class="soft" x="${left + 6}" y="${y + 4}">unknown</text>`); return; }
    const tip = `<title>${escaped(`${label}: ${a[0]} (95% interval ${a[1]} to ${a[2]})`)}</title>`;
    const [from, to] = [a[4] === null ? low : a[4], a[5] === null ? high : a[5]];
    if (fromZero) parts.push(`<rect class="bar" x="${left}" y="${y - 7}" width="${x(a[3]) - left}" height="14">${tip}</rect>`);
    parts.push(`<line class="interval" x1="${x(from)}" x2="${x(to)}" y1="${y}" y2="${y}">${tip}</line>`);
    if (!fromZero) parts.push(`<circle class="dot" cx="${x(a[3])}" cy="${y}" r="4">${tip}</circle>`);
    if (to > high || a[5] === null) parts.push(`<path class="interval" d="M${right - 6} ${y - 4}L${right} ${y}L${right - 6} ${y + 4}"/>`);
    if (from < low || a[4] === null) parts.push(`<path class="interval" d="M${left + 6} ${y - 4}L${left} ${y}L${left + 6} ${y + 4}"/>`);
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${bottom + 26}" role="img" aria-label="Chart of the answer">${parts.join("")}</svg>`;
}

/** Return a text for a CSV cell that no spreadsheet runs as a formula. */
function cell(text) {
  const safe = /^\s*[=+\-@\t\r\n]/.test(text) && !/^[+-]?[\d.,]+( to [+-]?[\d.,]+)?$/.test(text) ? "'" + text : text;
  return /[",\n\r]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
}

function toCsv(rows, by, what) {
  const number = (value) => value === null ? "" : String(value);
  const lines = rows.map(([label, a]) => [cell(label), number(a[3]), number(a[4]), number(a[5])].join(","));
  return [[cell(by || "rows"), cell(what || "rows"), "low", "high"].join(","), ...lines].join("\n") + "\n";
}

function start() {
  const content = JSON.parse(document.getElementById("content").textContent);
  const at = (id) => document.getElementById(id);
  const option = (value, text) => Object.assign(document.createElement("option"), { value, textContent: text });
  const add = (id, items) => at(id).replaceChildren(...items);
  const item = (text) => Object.assign(document.createElement("li"), { textContent: text });
  const row = (tag, cells, numbers) => {
    const line = document.createElement("tr");
    cells.forEach((text, place) => {
      const one = Object.assign(document.createElement(tag), { textContent: text });
      if (tag === "th") one.scope = "col";
      if (numbers && place) one.className = "number";
      line.append(one);
    });
    return line;
  };
  const table = (id, head, lines, numbers) => {
    const [top, body] = [document.createElement("thead"), document.createElement("tbody")];
    top.append(row("th", head, numbers));
    body.append(...lines.map((cells) => row("td", cells, numbers)));
    add(id, [top, body]);
  };
  const names = content.columns.map((one) => one.name);
  at("warning").textContent = content.warning;
  at("warning").hidden = !content.warning;
  at("about").textContent = `About ${content.total[0]} rows, published with ${content.method}. This file works without a network connection, and sends nothing.`;
  add("promise", content.promises.map(item));
  table("columns", ["column", "type", "values"], content.columns.map((one) => [one.title, one.type, one.values]));
  if (content.leftOut.length) {
    at("left-out").hidden = false;
    at("left-out").textContent = `To keep the file small, it has no counts for these pairs of columns: ${content.leftOut.map((two) => two.join(" and ")).join("; ")}.`;
  }
  add("what", [option("", "number of rows"), ...Object.keys(content.figures).map((name) => option(name, name))]);
  const titled = content.columns.map((one) => [one.name, one.title]);
  add("by", [option("", "(all rows)"), ...titled.map(([name, title]) => option(name, title))]);
  add("column", [option("", "(no condition)"), ...titled.map(([name, title]) => option(name, title))]);
  at("by").value = names[0];
  let shown = { rows: [], title: "" };

  function groups() {
    const one = content.columns.find((found) => found.name === at("column").value);
    at("group-label").hidden = !one;
    add("group", (one ? one.groups : []).map(([label], place) => option(place, label)));
  }

  function update() {
    const [what, by, column, group] = [at("what").value, at("by").value, at("column").value, Number(at("group").value)];
    const rows = lookUp(content, what, by, column, group);
    const clause = column ? content.columns.find((one) => one.name === column).groups[group][1] : "";
    const title = (what || "number of rows") + (by ? ` by ${by}` : "") + (clause ? ` where ${clause}` : "");
    at("answer-title").textContent = rows ? title : "This file does not contain this answer";
    const figure = what ? what.split(" of ")[0] : "count";
    const wheres = clauses(content, by, column, group);
    const words = [what ? JSON.stringify(what.slice(figure.length + 4)) : "", by ? "where" : clause && JSON.stringify(clause)];
    const call = `release.${figure}(${words.filter(Boolean).join(", ")})`;
    const lines = wheres.map((one) => `    ${JSON.stringify(one)},\n`).join("");
    at("python").textContent = `import hushtable\nrelease = hushtable.Release.load(${JSON.stringify(content.folder)})\n` +
      (by ? `for where in [\n${lines}]:\n    print(where, ${call})` : `print(${call})`);
    const quote = (text) => "'" + text.replace(/'/g, "'\\''") + "'";
    const asked = what ? (figure === "mean" ? `--mean ${quote(what.slice(8))}` : `--quantile ${quote(what.slice(10) + ":0.5")}`) : "";
    at("shell").textContent = wheres.map((one) => ["hushtable query", quote(content.folder), one || !asked ? quote(one || "TRUE") : "", asked].filter(Boolean).join(" ")).join("\n");
    const inR = what ? (figure === "mean" ? "mean_by" : "quantile_by") + `(release, ${words[0]}, where = ` : "count(release, ";
    const texts = wheres.map((one) => JSON.stringify(one || "TRUE"));
    at("r").textContent = `library(hushtable)\nrelease <- read_release(${JSON.stringify(content.folder)})\n` +
      (by ? `for (where in c(\n${texts.map((one) => "    " + one).join(",\n")}\n)) print(${inR}where))` : `${inR}${texts[0]})`);
    shown = { rows: rows || [], title, by, what };
    for (const id of ["csv", "svg", "png"]) at(id).disabled = !rows;
    if (!rows) {
      add("chart", []); add("table", []);
      add("notes", [item("Choose one column fewer, or ask the release as below.")]);
      return;
    }
    const box = new DOMParser().parseFromString(drawing(rows, "", !what, Math.min(900, Math.max(300, at("chart").clientWidth))), "image/svg+xml").documentElement;
    add("chart", [box]);
    table("table", [by || "rows", what || "rows", "low", "high"], rows.map(([label, a]) => [label, a[0], a[1], a[2]]), true);
    add("notes", [...new Set(rows.flatMap(([, a]) => a[6]))].map((place) => item(content.notes[place])));
  }

  function save(name, url) {
    const link = Object.assign(document.createElement("a"), { href: url, download: name });
    link.click();
  }
  const styled = () => drawing(shown.rows, shown.title, !shown.what).replace(">", "><style>text{font:13px sans-serif;fill:#222}.soft{fill:#555}.bar{fill:#4a8fd8}.grid{stroke:#ddd}.interval{stroke:#0b3d75;stroke-width:1.6;fill:none}.dot{fill:#0b3d75}</style><rect width=\"100%\" height=\"100%\" fill=\"white\"/>");
  const asUrl = (type, text) => `data:${type};charset=utf-8,` + encodeURIComponent(text);
  at("csv").addEventListener("click", () => save("answer.csv", asUrl("text/csv", toCsv(shown.rows, shown.by, shown.what))));
  at("svg").addEventListener("click", () => save("answer.svg", asUrl("image/svg+xml", styled())));
  at("png").addEventListener("click", () => {
    const image = new Image();
    const height = 66 + 24 * shown.rows.length;
    image.onload = () => {
      const canvas = Object.assign(document.createElement("canvas"), { width: 1440, height: 2 * height });
      canvas.getContext("2d").drawImage(image, 0, 0, 1440, 2 * height);
      save("answer.png", canvas.toDataURL("image/png"));
    };
    image.src = asUrl("image/svg+xml", styled().replace("<svg ", `<svg width="720" height="${height}" `));
  });
  at("question").addEventListener("submit", (event) => event.preventDefault());
  at("column").addEventListener("change", groups);
  at("question").addEventListener("change", update);
  window.addEventListener("resize", update);
  groups();
  update();
}

if (typeof document !== "undefined") start();
if (typeof module !== "undefined") module.exports = { lookUp, clauses, toCsv, cell, drawing, axis };
