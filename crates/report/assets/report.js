// What the page can do beyond being read. It works without: tables and pictures are there already.
// Data comes from the JSON block and goes into the page as text only: nothing here makes markup of it.
"use strict";

const run = JSON.parse(document.getElementById("run").textContent);
run.cells = run.cells.map(([round, position, variant]) => ({ round, position, variant }));
const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children);
  return element;
}

function say(text) {
  const said = byId("said");
  said.textContent = text;
  said.classList.add("shown");
  setTimeout(() => said.classList.remove("shown"), 2500);
}

// Units as people read them: how many of which unit each is.
const UNITS = {
  "µs": [1e-6, "s"], ms: [1e-3, "s"], s: [1, "s"], h: [3600, "s"],
  B: [1, "B"], KiB: [1024, "B"], MiB: [1024 ** 2, "B"], GiB: [1024 ** 3, "B"], TiB: [1024 ** 4, "B"], PiB: [1024 ** 5, "B"],
  k: [1e3, ""], M: [1e6, ""], G: [1e9, ""], T: [1e12, ""], P: [1e15, ""],
};
function unit(name) {
  const [bare, rate] = name.endsWith("/s") ? [name.slice(0, -2), "/s"] : [name, ""];
  const [factor, base] = UNITS[bare] ?? [1, bare];
  return [factor, base + rate];
}

// A figure as people read it, as a number: "3.92 ms" is less than "0.273 s".
const NUMBER = "([-+−]?\\d[\\d.,]*(?:e[-+]?\\d+)?) ?([^\\s\\d[\\]–]*)";
const BEGINS = new RegExp(`^\\s*${NUMBER}`, "i");
const ALONE = new RegExp(`^${NUMBER}$`, "i");
const RANGE = new RegExp(`^${NUMBER}(?:–| to )${NUMBER}$`, "i");
const scaled = (digits, name) => Number((parseFloat(digits.replace("−", "-").replace(/,/g, "")) * unit(name)[0]).toPrecision(12));
function number(text) {
  const found = BEGINS.exec(text);
  return found ? scaled(found[1], found[2]) : NaN;
}

// Numbers before words, words by the reader's alphabet.
const words = new Intl.Collator(undefined, { numeric: true });
function compare(a, b) {
  const [x, y] = [typeof a === "number" ? a : number(a), typeof b === "number" ? b : number(b)];
  if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
  return words.compare(String(a), String(b));
}

function csv(rows) {
  const quoted = (value) => {
    let text = String(value ?? "");
    // A spreadsheet would take such a cell for a formula.
    if (/^[=+@\t\r-]/.test(text) && Number.isNaN(Number(text))) text = "'" + text;
    return /[",\n\r]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  };
  return rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";
}

async function copy(rows) {
  const text = csv(rows);
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A page opened as a file may not use the clipboard in every browser.
    const area = make("textarea", { "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(`${rows.length - 1} rows copied as CSV`);
}

// What a cell of figures says, in columns of their own: "1.12 b" over "1.10–1.14" is a value, mark and two ends, and
// "1.00 a" over "55.6 ms" a value, mark and a median. Units are those without a prefix, so that columns can be reckoned with.
const PARTS = ["", "unit", "mark", "low", "high", "median", "median unit"];
function parts(cell) {
  const lines = [...cell.querySelectorAll("span")].map((line) => line.textContent);
  const mark = cell.dataset.mark ?? "";
  let first = lines.shift() ?? cell.textContent;
  if (mark && first.endsWith(mark)) first = first.slice(0, -mark.length).trim();
  const told = { mark };
  const range = (text) => {
    const found = RANGE.exec(text);
    if (!found) return false;
    // "1.10–1.14 s" has the unit of both at its end.
    told.low = scaled(found[1], found[2] || found[4]);
    told.high = scaled(found[3], found[4]);
    told.unit ??= unit(found[4])[1];
    return true;
  };
  const bracket = /^(.*\S) \[(.*)\]$/.exec(first);
  const alone = ALONE.exec(bracket && range(bracket[2]) ? bracket[1] : first);
  if (alone) {
    told[""] = scaled(alone[1], alone[2]);
    told.unit = unit(alone[2])[1];
  } else if (!range(first)) {
    told[""] = first === "–" ? "" : first;
  }
  for (const line of lines) {
    const median = ALONE.exec(line);
    if (range(line)) continue;
    if (median) [told.median, told["median unit"]] = [scaled(median[1], median[2]), unit(median[2])[1]];
    else told[""] = `${told[""] ?? ""} ${line}`.trim();
  }
  return told;
}

// The rows of a table for CSV. Of figures a column takes as many columns as its cells have parts.
function plain(table, rows) {
  const words = (cell) => [...cell.querySelectorAll("span")].map((line) => line.textContent).join(" ") || cell.textContent;
  const head = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  if (!table.classList.contains("figures")) return [head, ...rows.map((row) => [...row.cells].map(words))];
  const told = rows.map((row) => [...row.cells].map((cell, at) => (at ? parts(cell) : { "": words(cell) })));
  const columns = head.flatMap((name, at) => {
    const used = PARTS.filter((part) => !part || told.some((row) => row[at]?.[part]));
    return used.map((part) => [`${name} ${part}`.trim(), at, part]);
  });
  return [columns.map(([name]) => name), ...told.map((row) => columns.map(([, at, part]) => row[at]?.[part] ?? ""))];
}

// Buttons in the header of a table; `sort(column, ascending)` does the work.
function sortable(head, sort) {
  [...head.cells].forEach((cell, column) => {
    const label = cell.textContent;
    cell.setAttribute("aria-sort", "none");
    const button = make("button", { type: "button", title: `Sort by ${label}` }, ...cell.childNodes);
    button.addEventListener("click", () => {
      const ascending = cell.getAttribute("aria-sort") !== "ascending";
      for (const other of head.cells) other.setAttribute("aria-sort", "none");
      cell.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      sort(column, ascending);
    });
    cell.replaceChildren(button);
  });
}

// The tables that are in the page.
function enhance(scroll) {
  const table = scroll.querySelector("table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const button = make("button", { type: "button", class: "button" }, "Copy as CSV");
  button.addEventListener("click", () => copy(plain(table, rows.filter((row) => !row.hidden))));
  const bar = make("div", { class: "bar" }, button);
  scroll.before(bar);
  if (rows.length < 2) return;
  const first = (cell) => (cell?.querySelector("span") ?? cell)?.textContent ?? "";
  sortable(table.tHead.rows[0], (column, ascending) => {
    rows.sort((a, b) => compare(first(a.cells[column]), first(b.cells[column])) * (ascending ? 1 : -1));
    body.append(...rows);
  });
  const count = make("span", { class: "count", "aria-live": "polite" }, `${rows.length} rows`);
  const label = scroll.getAttribute("aria-label");
  const filter = make("input", { type: "search", placeholder: "Filter rows", "aria-label": `Filter rows of ${label}` });
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = `${shown} of ${rows.length} rows`;
  });
  bar.prepend(filter);
  bar.append(count);
}

// A box wider than its place says so, and a chart can be seen whole, if small.
function wide(box) {
  const hint = make("p", { class: "hint", hidden: true }, make("span", {}, "More at the side: scroll →"));
  const narrow = matchMedia("(max-width: 47rem)");
  const tell = () => { hint.hidden = !(box.scrollWidth > box.clientWidth + 1 || (narrow.matches && box.classList.contains("fitted"))); };
  if (box.classList.contains("picture")) {
    const button = make("button", { type: "button", class: "button", "aria-pressed": "false" }, "Whole picture");
    button.addEventListener("click", () => {
      const fitted = box.classList.toggle("fitted");
      button.setAttribute("aria-pressed", String(fitted));
      hint.firstElementChild.hidden = fitted;
    });
    hint.append(button);
  }
  // A table has a bar above it already.
  const bar = box.previousElementSibling?.matches(".bar") ? box.previousElementSibling : null;
  if (bar) bar.append(hint);
  else box.before(hint);
  new ResizeObserver(tell).observe(box);
}

// A click on a figure shows what it is made of: its samples, and the commands of their cells. That of a ratio is made of
// both variants; where there is no task, of all of them.
function explain(task, variants, wanted = null) {
  const names = variants.map((variant) => run.variants[variant]);
  byId("log-head").textContent = `${task === null ? "All tasks" : run.tasks[task]} — ${names.join(", against ")}`;
  const several = variants.length > 1;
  const parts = variants.flatMap((variant) => {
    const rounds = run.cells.flatMap((cell, at) => (cell.variant === variant && (wanted === null || wanted === at) ? round(cell, at, task, several) : []));
    return several && rounds.length ? [make("h3", {}, run.variants[variant]), ...rounds] : rounds;
  });
  if (!parts.length) parts.push(make("p", {}, run.remark));
  byId("log-body").replaceChildren(...parts);
  byId("log").showModal();
}

function round(cell, at, task, several) {
  const of = (m) => (task === null ? run.values[m]?.[at]?.find((value) => value != null) : run.values[m]?.[at]?.[task]);
  const values = run.metrics.map((metric, m) => [metric.name, of(m)]).filter(([, value]) => value != null);
  if (run.metrics.length && !values.length) return [];
  const shown = task === null ? "" : values.slice(0, 4).map(([name, value]) => `${name} ${value}`).join(", ");
  return [make(several ? "h4" : "h3", {}, `Round ${cell.round + 1}${shown ? ": " + shown : ""}`), commands(at, task)];
}

function commands(at, task) {
  const lines = run.log[at];
  if (!lines) return make("p", {}, run.remark);
  const list = make("ol");
  // Those of many cells would take a while, so a list is made when it is opened.
  const fill = () => list.childElementCount || list.append(...lines.map((line) => command(line, task)));
  const own = lines.filter(([, , , of]) => of === task).length;
  const open = task !== null && own <= 3 && lines.length < 60;
  if (open) fill();
  return make("details", { open, on: { toggle: fill } }, make("summary", {}, `${lines.length} commands of its cell`), list);
}

function command([text, ended, ms, of], task) {
  const line = make("li", {}, make("code", {}, run.texts[text]), ` — ${run.texts[ended]}, ${ms} ms`);
  if (of == null) return line;
  if (task === null) line.append(` (${run.tasks[of]})`);
  if (of === task) {
    line.classList.add("now");
    line.append(" (this task)");
  }
  return line;
}

// Samples are many: they are in the data and only a page of them is in the document.
const PAGE = 100;
function samples(place) {
  if (!run.metrics.length) return;
  const all = [];
  run.cells.forEach((cell, at) => {
    run.tasks.forEach((_, task) => {
      const values = run.values.map((cells) => cells[at]?.[task] ?? null);
      if (values.some((value) => value !== null)) all.push([run.tasks[task], run.variants[cell.variant], cell.round + 1, cell.position + 1, ...values, at, task]);
    });
  });
  const names = ["task", "variant", "round", "position", ...run.metrics.map((metric) => metric.name)];
  let shown = all, page = 0;
  const head = make("tr", {}, ...names.map((name, at) => make("th", { scope: "col", title: run.metrics[at - 4]?.help ?? null }, name)), make("th", { scope: "col" }, "log"));
  const body = make("tbody");
  const count = make("span", { class: "count", "aria-live": "polite" });
  const draw = () => {
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    body.replaceChildren(...shown.slice(page * PAGE, (page + 1) * PAGE).map((row) => {
      const [at, task] = row.slice(-2);
      const log = make("button", { type: "button", class: "button", "aria-label": `Commands of ${row[0]}, ${row[1]}, round ${row[2]}` }, "commands");
      log.addEventListener("click", () => explain(task, [run.cells[at].variant], at));
      const cells = row.slice(0, -2).map((value, column) => make(column ? "td" : "th", column ? {} : { scope: "row" }, value === null ? "" : String(value)));
      return make("tr", {}, ...cells, make("td", {}, log));
    }));
    count.textContent = `${shown.length} of ${all.length} samples, page ${page + 1} of ${pages}`;
    back.disabled = page === 0;
    on.disabled = page === pages - 1;
  };
  const filter = make("input", { type: "search", placeholder: "Filter tasks and variants", "aria-label": "Filter samples" });
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = all.filter((row) => wanted.every((word) => `${row[0]} ${row[1]}`.toLowerCase().includes(word)));
    page = 0;
    draw();
  });
  const back = make("button", { type: "button", class: "button" }, "Previous");
  const on = make("button", { type: "button", class: "button" }, "Next");
  back.addEventListener("click", () => { page -= 1; draw(); });
  on.addEventListener("click", () => { page += 1; draw(); });
  const button = make("button", { type: "button", class: "button" }, "Copy as CSV");
  button.addEventListener("click", () => copy([names, ...shown.map((row) => row.slice(0, -2))]));
  sortable(head, (column, ascending) => {
    if (column >= names.length) return;
    const sign = ascending ? 1 : -1;
    shown = [...shown].sort((a, b) => (a[column] === null) - (b[column] === null) || sign * compare(a[column], b[column]));
    page = 0;
    draw();
  });
  const table = make("table", { class: "figures" }, make("caption", { class: "unseen" }, "Samples"), make("thead", {}, head), body);
  place.append(make("div", { class: "bar" }, filter, back, on, button, count), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Samples" }, table));
  draw();
}

function measure() {
  const choice = byId("measure");
  if (!choice) return;
  choice.hidden = false;
  const apply = () => {
    const wanted = choice.querySelector(":checked").value;
    for (const figure of document.querySelectorAll("figure[data-form]")) {
      figure.hidden = figure.dataset.form !== "only" && figure.dataset.form !== wanted;
    }
  };
  choice.addEventListener("change", apply);
  apply();
}

function theme() {
  const button = byId("theme");
  const names = ["as the system", "light", "dark"];
  let at = 0;
  button.hidden = false;
  button.addEventListener("click", () => {
    at = (at + 1) % names.length;
    if (at) document.documentElement.dataset.theme = names[at];
    else delete document.documentElement.dataset.theme;
    button.textContent = `Theme: ${names[at]}`;
  });
}

function whereAmI() {
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  document.querySelectorAll("main > section").forEach((section) => seen.observe(section));
}

for (const cell of document.querySelectorAll("td[data-variant]")) {
  const button = make("button", { type: "button", class: "figure", title: "Samples and commands" }, ...cell.childNodes);
  const task = cell.dataset.task === undefined ? null : Number(cell.dataset.task);
  button.addEventListener("click", () => explain(task, cell.dataset.variant.split(" ").map(Number)));
  cell.replaceChildren(button);
}
document.querySelectorAll("main .scroll").forEach(enhance);
measure();
theme();
whereAmI();
byId("print").hidden = false;
byId("print").addEventListener("click", () => window.print());
addEventListener("beforeprint", () => document.querySelectorAll("details.code").forEach((d) => { d.open = true; }));
samples(byId("samples"));
document.querySelectorAll("main .picture, main .scroll").forEach(wide);
document.documentElement.dataset.ready = "true";
