// What the page can do beyond being read. It works without: tables and pictures are there already.
// Data comes from the JSON block and goes into the page as text only: nothing here makes markup of it.
"use strict";

const run = JSON.parse(document.getElementById("run").textContent);
run.cells = run.cells.map(([block, position, arm]) => ({ block, position, arm }));
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

// A figure as people read it, as a number: "3.92 ms" is less than "0.273 s".
const FACTORS = { "µs": 1e-6, ms: 1e-3, s: 1, h: 3600, B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4, k: 1e3, M: 1e6, G: 1e9 };
function number(text) {
  const found = /^\s*([-+−]?[\d.,]+(?:e[-+]?\d+)?)\s*([^\s\d/[]*)/i.exec(text);
  if (!found) return NaN;
  const value = parseFloat(found[1].replace("−", "-").replace(/,/g, ""));
  const unit = found[2];
  return value * (FACTORS[unit] ?? FACTORS[unit.charAt(0)] ?? 1);
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

// Buttons in the header of a table; `sort(column, ascending)` does the work.
function sortable(head, sort) {
  [...head.cells].forEach((cell, column) => {
    const label = cell.textContent;
    cell.setAttribute("aria-sort", "none");
    const button = make("button", { type: "button", title: `Sort by ${label || "this column"}` }, label || "·");
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
  if (rows.length < 3) return;
  const first = (cell) => (cell?.firstElementChild ?? cell)?.textContent ?? "";
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
  const plain = (row) => [...row.cells].map((cell) => [...cell.querySelectorAll("span")].map((s) => s.textContent).join(" ") || cell.textContent);
  const button = make("button", { type: "button", class: "button" }, "Copy as CSV");
  button.addEventListener("click", () => copy([table.tHead.rows[0], ...rows.filter((row) => !row.hidden)].map(plain)));
  scroll.before(make("div", { class: "bar" }, filter, button, count));
}

// A click on a figure shows what it is made of: its samples, and the commands of their cells.
function explain(step, arm, wanted = null) {
  byId("log-head").textContent = `${run.steps[step]} — ${run.arms[arm]}`;
  const parts = [];
  run.cells.forEach((cell, at) => {
    if (cell.arm !== arm || (wanted !== null && wanted !== at)) return;
    const values = run.metrics.map((metric, m) => [metric.name, run.values[m]?.[at]?.[step]]).filter(([, value]) => value != null);
    if (run.metrics.length && !values.length) return;
    const shown = values.slice(0, 4).map(([name, value]) => `${name} ${value}`).join(", ");
    parts.push(make("h3", {}, `Block ${cell.block + 1}${shown ? ": " + shown : ""}`), commands(at, step));
  });
  if (!parts.length) parts.push(make("p", {}, run.remark));
  byId("log-body").replaceChildren(...parts);
  byId("log").showModal();
}

function commands(at, step) {
  const lines = run.log[at];
  if (!lines) return make("p", {}, run.remark);
  const list = make("ol");
  for (const [text, ended, ms, of] of lines) {
    const line = make("li", {}, make("code", {}, run.texts[text]), ` — ${run.texts[ended]}, ${ms} ms`);
    if (of === step) {
      line.classList.add("now");
      line.append(" (this step)");
    }
    list.append(line);
  }
  const own = lines.filter(([, , , of]) => of === step).length;
  const details = make("details", { open: own <= 3 && lines.length < 60 }, make("summary", {}, `${lines.length} commands of its cell`), list);
  return details;
}

// Samples are many: they are in the data and only a page of them is in the document.
const PAGE = 100;
function samples(place) {
  if (!run.metrics.length) return;
  const all = [];
  run.cells.forEach((cell, at) => {
    run.steps.forEach((_, step) => {
      const values = run.values.map((cells) => cells[at]?.[step] ?? null);
      if (values.some((value) => value !== null)) all.push([run.steps[step], run.arms[cell.arm], cell.block + 1, cell.position + 1, ...values, at, step]);
    });
  });
  const names = ["step", "arm", "block", "position", ...run.metrics.map((metric) => metric.name)];
  let shown = all, page = 0;
  const head = make("tr", {}, ...names.map((name, at) => make("th", { scope: "col", title: run.metrics[at - 4]?.help ?? null }, name)), make("th", { scope: "col" }, "log"));
  const body = make("tbody");
  const count = make("span", { class: "count", "aria-live": "polite" });
  const draw = () => {
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    body.replaceChildren(...shown.slice(page * PAGE, (page + 1) * PAGE).map((row) => {
      const [at, step] = row.slice(-2);
      const log = make("button", { type: "button", class: "button", "aria-label": `Commands of ${row[0]}, ${row[1]}, block ${row[2]}` }, "commands");
      log.addEventListener("click", () => explain(step, run.cells[at].arm, at));
      const cells = row.slice(0, -2).map((value, column) => make(column ? "td" : "th", column ? {} : { scope: "row" }, value === null ? "" : String(value)));
      return make("tr", {}, ...cells, make("td", {}, log));
    }));
    count.textContent = `${shown.length} of ${all.length} samples, page ${page + 1} of ${pages}`;
    back.disabled = page === 0;
    on.disabled = page === pages - 1;
  };
  const filter = make("input", { type: "search", placeholder: "Filter steps and arms", "aria-label": "Filter samples" });
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
  const table = make("table", { class: "figures" }, make("thead", {}, head), body);
  place.append(make("div", { class: "bar" }, filter, back, on, button, count), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Samples" }, table));
  draw();
}

function measure() {
  const choice = byId("measure");
  if (!choice) return;
  choice.hidden = false;
  const apply = () => {
    const wanted = choice.querySelector(":checked").value;
    for (const figure of document.querySelectorAll("figure[data-variant]")) {
      figure.hidden = figure.dataset.variant !== "only" && figure.dataset.variant !== wanted;
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

for (const cell of document.querySelectorAll("td[data-step]")) {
  const button = make("button", { type: "button", class: "figure", title: "Samples and commands" }, ...cell.childNodes);
  button.addEventListener("click", () => explain(Number(cell.dataset.step), Number(cell.dataset.arm)));
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
document.documentElement.dataset.ready = "true";
