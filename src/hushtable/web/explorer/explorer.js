"use strict";
// Answers are [texts of value, low, high; numbers of value, low, high; places of notes]. A question
// is { what, of, by: [column, ...], filters: [[column, [place of a group, ...]], ...], where }.

/** Return a clause that selects any of some groups of a column. */
function anyOf(groups) {
  const found = groups.map((one) => one[1]).join(" OR ");
  return groups.length > 1 ? `(${found})` : found;
}

/** Return the conditions of a question without those that select all values of a column. */
function effective(content, filters) {
  const groupsOf = (name) => content.columns.find((one) => one.name === name).groups;
  return filters.filter(([name, chosen]) => name && chosen.length && chosen.length < groupsOf(name).length)
    .map(([name, chosen]) => [name, chosen.toSorted((a, b) => a - b)]);
}

/** Return the WHERE clause of all conditions of a question. */
function clauseOf(content, question) {
  const said = effective(content, question.filters).map(([name, chosen]) =>
    anyOf(chosen.map((place) => content.columns.find((one) => one.name === name).groups[place])));
  const own = question.where && said.length ? `(${question.where})` : question.where;
  return [...said, own].filter(Boolean).join(" AND ");
}

/** Return the cells of a question in the order of the columns: labels, and the chosen groups by column. */
function cells(content, question) {
  const filters = new Map(effective(content, question.filters));
  let found = [{ labels: [], chosen: new Map(filters) }];
  for (const name of question.by) {
    const { groups } = content.columns.find((one) => one.name === name);
    const places = filters.get(name) || groups.map((_, place) => place);
    found = found.flatMap((one) => places.map((place) => (
      { labels: [...one.labels, groups[place][0]], chosen: new Map([...one.chosen, [name, [place]]]) })));
  }
  return found;
}

/** Return the rows of an answer: [labels, clause, answer]; null if the file does not contain it. */
function lookUp(content, question) {
  if (question.where || !content.counts) return null;
  const table = question.what ? content.figures[question.what] : content.counts;
  if (!table) return null;
  const rows = [];
  for (const { labels, chosen } of cells(content, question)) {
    const asked = content.columns.filter((one) => chosen.has(one.name)).map((one) => {
      const places = chosen.get(one.name);
      const sets = places.length > 1 ? (content.sets || {})[one.name] || [] : null;
      return {
        key: one.name + (sets ? "*" : ""),
        place: sets ? sets.findIndex((set) => set.join() === places.join()) : places[0],
        n: sets ? sets.length : one.groups.length,
        clause: anyOf(places.map((place) => one.groups[place])),
      };
    });
    const known = table[asked.map((one) => one.key).join("\n")];
    if (!known || asked.some((one) => one.place < 0)) return null;
    const clause = asked.map((one) => one.clause).join(" AND ");
    const place = asked.reduce((sum, one) => sum * one.n + one.place, 0);
    rows.push([labels.length ? labels : [clause || "all rows"], clause, known[place]]);
  }
  return rows;
}

/** Return the ends of the axis: all values, and intervals as far as they are not much wider. */
function axis(rows, fromZero) {
  const known = rows.map((row) => row[2]).filter((a) => a[3] !== null);
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
  rows.forEach(([labels, , a], place) => {
    const label = labels.join(", ");
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
  const lines = rows.map(([labels, , a]) => [...labels.map(cell), number(a[3]), number(a[4]), number(a[5])].join(","));
  return [[...(by.length ? by : ["rows"]).map(cell), cell(what || "rows"), "low", "high"].join(","), ...lines].join("\n") + "\n";
}

/** Return code that asks the same question in Python, in a shell, and in R. */
function sources(content, question, clauses) {
  const [text, quote] = [JSON.stringify, (given) => "'" + given.replace(/'/g, "'\\''") + "'"];
  const { kind, of, folder } = { ...question, folder: content.folder };
  const several = clauses.length > 1;
  const words = [kind ? text(of) : "", several ? "where" : clauses[0] && text(clauses[0])];
  if (kind === "logistic") words.push("logistic=True");
  const call = `release.${{ "": "count", logistic: "regression" }[kind] || kind}(${words.filter(Boolean).join(", ")})`;
  const options = {
    "": "", mean: `--mean ${quote(of)}`, median: `--quantile ${quote(of + ":0.5")}`,
    regression: `--regress ${quote(of)}`, logistic: `--regress ${quote(of)} --logistic`,
  }[kind];
  const inR = {
    "": "count(release, ", mean: `mean_by(release, ${text(of)}, where = `, median: `quantile_by(release, ${text(of)}, where = `,
    regression: `regression(release, ${text(of)}, where = `, logistic: `regression(release, ${text(of)}, logistic = TRUE, where = `,
  }[kind];
  const texts = clauses.map((one) => text(one || "TRUE"));
  const list = (items, end) => items.map((one) => `    ${one}`).join(",\n") + end;
  return {
    python: `import hushtable\nrelease = hushtable.Release.load(${text(folder)})\n` +
      (several ? `for where in [\n${list(clauses.map((one) => text(one)), ",\n")}]:\n    print(where, ${call})` : `print(${call})`),
    shell: clauses.map((one) => ["hushtable query", quote(folder), one || !options ? quote(one || "TRUE") : "", options].filter(Boolean).join(" ")).join("\n"),
    r: `library(hushtable)\nrelease <- read_release(${text(folder)})\n` +
      (several ? `for (where in c(\n${list(texts, "")}\n)) print(${inR}where))` : `${inR}${texts[0]})`),
  };
}

/** Return the question that an address describes, and the address of a question. */
function fromHash(content, hash) {
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  const names = content.columns.map((one) => one.name);
  const filters = found.getAll("in").map((one) => [one.slice(0, one.lastIndexOf(":")), one.slice(one.lastIndexOf(":") + 1)])
    .filter(([name]) => names.includes(name))
    .map(([name, places]) => [name, places.split(",").filter(Boolean).map(Number)]);
  const by = found.getAll("by").filter((name) => names.includes(name)).slice(0, 2);
  const [kind, of] = [found.get("kind") || "", found.get("of") || ""];
  return { kind, of, what: kind ? `${kind} of ${of}` : "", by, filters, where: found.get("where") || "" };
}
function toHash(question) {
  const found = new URLSearchParams();
  for (const name of ["kind", "of", "where"]) if (question[name]) found.append(name, question[name]);
  for (const name of question.by) found.append("by", name);
  for (const [name, places] of question.filters) if (name) found.append("in", `${name}:${places.join(",")}`);
  return "#" + found;
}

function start() {
  const content = JSON.parse(document.getElementById("content").textContent);
  const at = (id) => document.getElementById(id);
  const make = (tag, more, ...children) => {
    const one = Object.assign(document.createElement(tag), more);
    one.append(...children);
    return one;
  };
  const option = (value, text) => make("option", { value, textContent: text });
  const add = (id, items) => at(id).replaceChildren(...items);
  const list = (texts) => texts.map((text) => make("li", { textContent: text }));
  const table = (id, head, lines, first) => {
    const cell = (tag) => (text, place) => make(tag, { textContent: text, className: place >= first ? "number" : "", ...(tag === "th" ? { scope: "col" } : {}) });
    add(id, [make("thead", {}, make("tr", {}, ...head.map(cell("th")))),
      make("tbody", {}, ...lines.map((cells) => make("tr", {}, ...cells.map(cell("td")))))]);
  };
  const groupsOf = (name) => content.columns.find((one) => one.name === name).groups;
  const titled = content.columns.map((one) => option(one.name, one.title));
  const choices = (empty) => [option("", empty), ...titled.map((one) => one.cloneNode(true))];

  at("warning").textContent = content.warning;
  at("warning").hidden = !content.warning;
  at("about").textContent = `Published with ${content.method} on ${content.created}. ` +
    (content.server ? "Answers are computed from the release only." : "This file works without a network connection, and sends nothing.");
  add("promise", list(content.promises));
  add("unprotected", list(content.unprotected));
  table("columns", ["column", "type", "values"], content.columns.map((one) => [one.title, one.type, one.values]), 3);
  if (content.leftOut.length) {
    at("left-out").hidden = false;
    at("left-out").textContent = `To keep the file small, it has no counts for these pairs of columns: ${content.leftOut.map((two) => two.join(" and ")).join("; ")}.`;
  }
  for (const one of document.querySelectorAll("[data-server]")) one.hidden = !content.server;
  for (const one of document.querySelectorAll("[data-file]")) one.hidden = content.server;
  at("back").hidden = !content.back;
  at("back").firstElementChild.href = content.back;
  const models = content.server ? [option("regression\n", "linear regression"), option("logistic\n", "logistic regression")] : [];
  add("what", [option("", "number of rows"), ...content.whats.map(([kind, of]) => option(`${kind}\n${of}`, `${kind} of ${of}`)), ...models]);
  add("by", choices("(all rows)"));
  add("by-2", choices("(nothing)"));
  let [shown, number] = [{ rows: [], title: "", by: [], what: "" }, 0];

  /** Add a line for a condition; an unused one is always the last. */
  function condition(name, chosen) {
    const column = make("select", { className: "column" }, ...choices("(no condition)"));
    const values = make("details", { hidden: true }, make("summary", {}), make("fieldset", {}));
    const line = make("div", { className: "filter" }, make("label", {}, "Only where ", column), values);
    const fill = (places) => {
      values.hidden = !column.value;
      values.lastChild.replaceChildren(...(column.value ? groupsOf(column.value) : []).map(([label], value) =>
        make("label", {}, make("input", { type: "checkbox", value, checked: places.includes(value) }), label)));
    };
    column.value = name;
    fill(chosen);
    column.addEventListener("change", () => { fill([]); values.open = Boolean(column.value); });
    at("filters").append(line);
  }
  function tidy() {
    const lines = [...at("filters").children];
    lines.slice(0, -1).filter((line) => !line.querySelector("select").value).forEach((line) => line.remove());
    if (lines.at(-1)?.querySelector("select").value !== "") condition("", []);
    for (const line of at("filters").children) {
      const boxes = [...line.querySelectorAll("input")];
      const names = boxes.filter((box) => box.checked).map((box) => box.parentNode.textContent);
      line.querySelector("summary").textContent = !names.length ? "is any value (choose)" : names.length > 2 ? `is one of ${names.length} values` : `is ${names.join(" or ")}`;
    }
  }
  function asked() {
    const [kind, column = ""] = at("what").value.split("\n");
    const model = ["regression", "logistic"].includes(kind);
    const of = model ? at("formula").value.trim() : column;
    const filters = [...at("filters").children].map((line) => [line.querySelector("select").value,
      [...line.querySelectorAll("input:checked")].map((box) => Number(box.value))]);
    const by = model ? [] : [...new Set([at("by").value, at("by-2").value].filter(Boolean))];
    at("formula-label").hidden = !model;
    at("by").disabled = at("by-2").disabled = model;
    return { kind, of, what: kind ? `${kind} of ${of}` : "", by, filters: filters.filter(([name]) => name), where: at("where").value.trim() };
  }
  function fill(question) {
    const model = ["regression", "logistic"].includes(question.kind);
    at("what").value = question.kind ? `${question.kind}\n${model ? "" : question.of}` : "";
    if (at("what").selectedIndex < 0) at("what").value = "";
    at("formula").value = model ? question.of : "";
    [at("by").value, at("by-2").value] = [question.by[0] || "", question.by[1] || ""];
    at("where").value = question.where;
    add("filters", []);
    question.filters.forEach(([name, places]) => condition(name, places));
  }

  /** Return the answer from the file or the server: its rows with their notes, or problems. */
  async function answered(question) {
    const known = lookUp(content, question);
    if (known) return { rows: known, notes: content.notes };
    if (!content.server) return { problems: ["This file does not contain this answer: choose fewer columns, or another set of values, or ask the release as below."] };
    if (["regression", "logistic"].includes(question.kind) && !question.of) return { problems: ["Enter a formula."] };
    const given = new URLSearchParams({ what: question.kind, of: question.of, where: clauseOf(content, question) });
    for (const name of question.by) given.append("by", name);
    try {
      const found = await fetch("answer?" + given);
      return found.ok ? await found.json() : { problems: [await found.text()] };
    } catch {
      return { problems: ["The server does not answer; start it again."] };
    }
  }

  async function update() {
    const turn = ++number;
    tidy();
    const question = asked();
    history.replaceState(null, "", toHash(question));
    const clause = clauseOf(content, question);
    const title = (question.what || "number of rows") + (question.by.length ? ` by ${question.by.join(" and ")}` : "") + (clause ? ` where ${clause}` : "");
    at("answer").setAttribute("aria-busy", "true");
    const slow = setTimeout(() => { at("answer-title").textContent = "Computing \u2026"; }, 300);
    const { rows = [], notes = [], problems = [] } = await answered(question);
    clearTimeout(slow);
    if (turn !== number) return;
    at("answer").setAttribute("aria-busy", "false");
    at("answer-title").textContent = problems.length ? "No answer" : title;
    add("problems", list(problems));
    const model = rows.length && ["regression", "logistic"].includes(question.kind);
    const code = sources(content, question, rows.length && !model ? rows.map((row) => row[1]) : [clause]);
    for (const id of ["python", "r", "shell"]) at(id).textContent = code[id];
    const by = model ? ["term"] : question.by;
    const name = model ? "coefficient" : question.what;
    shown = { rows, title, by, what: name };
    for (const id of ["csv", "svg", "png"]) at(id).disabled = !rows.length;
    if (!rows.length) {
      for (const id of ["chart", "table", "notes"]) add(id, []);
      return;
    }
    const box = new DOMParser().parseFromString(drawing(rows, "", !name, Math.min(900, Math.max(300, at("chart").clientWidth))), "image/svg+xml").documentElement;
    add("chart", [box]);
    table("table", [...(by.length ? by : ["rows"]), name || "rows", "low", "high"], rows.map(([labels, , a]) => [...labels, ...a.slice(0, 3)]), by.length || 1);
    add("notes", list([...new Set(rows.flatMap(([, , a]) => a[6]))].map((place) => notes[place])));
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
  at("question").addEventListener("submit", (event) => { event.preventDefault(); update(); });
  at("question").addEventListener("change", update);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) { width = window.innerWidth; update(); }
  });
  window.addEventListener("hashchange", () => { fill(fromHash(content, location.hash)); update(); });
  fill(location.hash.length > 1 ? fromHash(content, location.hash) : { kind: "", of: "", by: [content.columns[0].name], filters: [], where: "" });
  update();
}

if (typeof document !== "undefined") start();
if (typeof module !== "undefined") module.exports = { lookUp, clauseOf, fromHash, toHash, toCsv, cell, drawing, axis };
