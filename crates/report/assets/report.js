// Makes the page interactive: sorting, filtering, copying, the log of commands, the table of samples. Without it, the tables and
// charts can be read all the same. Data from the JSON block goes into the page only as text, never as markup.
"use strict";

const run = JSON.parse(document.getElementById("run").textContent);
run.cells = run.cells.map(([round, position, variant]) => ({ round, position, variant }));
const byId = (id) => document.getElementById(id);

// Creates an element. The attribute `on` is an object of event listeners.
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

// Shows a short message, which screen readers read aloud.
function announce(text) {
  const announcement = byId("announcement");
  announcement.textContent = text;
  announcement.classList.add("shown");
  setTimeout(() => announcement.classList.remove("shown"), 2500);
}

// Each unit or prefix: its factor, and the base unit.
const UNITS = {
  "µs": [1e-6, "s"], ms: [1e-3, "s"], s: [1, "s"], h: [3600, "s"],
  B: [1, "B"], KiB: [1024, "B"], MiB: [1024 ** 2, "B"], GiB: [1024 ** 3, "B"], TiB: [1024 ** 4, "B"], PiB: [1024 ** 5, "B"],
  kB: [1e3, "B"], MB: [1e6, "B"],
  k: [1e3, ""], M: [1e6, ""], G: [1e9, ""], T: [1e12, ""], P: [1e15, ""],
};
// The factor and the base unit of a unit: "MiB/s" is 1048576 "B/s".
function factorAndBaseUnit(unit) {
  const [amount, perSecond] = unit.endsWith("/s") ? [unit.slice(0, -2), "/s"] : [unit, ""];
  const [factor, base] = UNITS[amount] ?? [1, amount];
  return [factor, base + perSecond];
}

// Figures as the page prints them: "3.92 ms" is less than "0.273 s".
const FIGURE = "([-+−]?\\d[\\d.,]*(?:e[-+]?\\d+)?) ?([^\\s\\d[\\]–]*)";
const STARTS_WITH_FIGURE = new RegExp(`^\\s*${FIGURE}`, "i");
const ONE_FIGURE = new RegExp(`^${FIGURE}$`, "i");
const RANGE = new RegExp(`^${FIGURE}(?:–| to )${FIGURE}$`, "i");

// The number of digits with a unit, in the base unit.
function inBaseUnit(digits, unit) {
  const number = parseFloat(digits.replace("−", "-").replace(/,/g, ""));
  return Number((number * factorAndBaseUnit(unit)[0]).toPrecision(12));
}

// The figure at the start of a text, in the base unit; NaN if there is none.
function parseFigure(text) {
  const match = STARTS_WITH_FIGURE.exec(text);
  return match ? inBaseUnit(match[1], match[2]) : NaN;
}

// The sort order of two cells: numbers before words, words in the order of the reader's language.
const collator = new Intl.Collator(undefined, { numeric: true });
function compare(a, b) {
  const [x, y] = [typeof a === "number" ? a : parseFigure(a), typeof b === "number" ? b : parseFigure(b)];
  if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
  if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
  return collator.compare(String(a), String(b));
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
  announce(`${rows.length - 1} rows copied as CSV`);
}

// Splits a cell of figures into parts, each of which gets a column in CSV: "1.12 b" above "1.10–1.14" is a value, a mark and
// two ends; "1.00 a" above "55.6 ms" is a value, a mark and a median. Numbers are in base units, so that programs can use them.
const FIGURE_PARTS = ["", "unit", "mark", "low", "high", "median", "median unit"];
function splitFigureCell(cell) {
  const lines = [...cell.querySelectorAll("span")].map((line) => line.textContent);
  const mark = cell.dataset.mark ?? "";
  let first = lines.shift() ?? cell.textContent;
  if (mark && first.endsWith(mark)) first = first.slice(0, -mark.length).trim();
  const parts = { mark };
  // Adds the ends of a range; returns false for other texts.
  const addRange = (text) => {
    const match = RANGE.exec(text);
    if (!match) return false;
    // "1.10–1.14 s" has the unit of both ends at the second one.
    parts.low = inBaseUnit(match[1], match[2] || match[4]);
    parts.high = inBaseUnit(match[3], match[4]);
    parts.unit ??= factorAndBaseUnit(match[4])[1];
    return true;
  };
  const bracket = /^(.*\S) \[(.*)\]$/.exec(first);
  const value = ONE_FIGURE.exec(bracket && addRange(bracket[2]) ? bracket[1] : first);
  if (value) {
    parts[""] = inBaseUnit(value[1], value[2]);
    parts.unit = factorAndBaseUnit(value[2])[1];
  } else if (!addRange(first)) {
    parts[""] = first === "–" ? "" : first;
  }
  for (const line of lines) {
    const median = ONE_FIGURE.exec(line);
    if (addRange(line)) continue;
    if (median) {
      parts.median = inBaseUnit(median[1], median[2]);
      parts["median unit"] = factorAndBaseUnit(median[2])[1];
    } else {
      parts[""] = `${parts[""] ?? ""} ${line}`.trim();
    }
  }
  return parts;
}

// The header and the rows of a table for CSV. A column of figures becomes a column for each part that its cells have.
function csvRows(table, rows) {
  const cellText = (cell) => [...cell.querySelectorAll("span")].map((line) => line.textContent).join(" ") || cell.textContent;
  const headers = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  if (!table.classList.contains("figures")) return [headers, ...rows.map((row) => [...row.cells].map(cellText))];
  const splitRows = rows.map((row) => [...row.cells].map((cell, column) => (column ? splitFigureCell(cell) : { "": cellText(cell) })));
  const csvColumns = headers.flatMap((header, column) => {
    const used = FIGURE_PARTS.filter((part) => !part || splitRows.some((row) => row[column]?.[part]));
    return used.map((part) => [`${header} ${part}`.trim(), column, part]);
  });
  return [csvColumns.map(([header]) => header), ...splitRows.map((row) => csvColumns.map(([, column, part]) => row[column]?.[part] ?? ""))];
}

// Turns the headers of a table into buttons that call `sort(column, ascending)`.
function addSortButtons(headerRow, sort) {
  [...headerRow.cells].forEach((cell, column) => {
    const label = cell.textContent;
    cell.setAttribute("aria-sort", "none");
    const button = make("button", { type: "button", title: `Sort by ${label}` }, ...cell.childNodes);
    button.addEventListener("click", () => {
      const ascending = cell.getAttribute("aria-sort") !== "ascending";
      for (const other of headerRow.cells) other.setAttribute("aria-sort", "none");
      cell.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      sort(column, ascending);
    });
    cell.replaceChildren(button);
  });
}

// Adds a filter, sort buttons and a copy button to a table in its box.
function addTableTools(box) {
  const table = box.querySelector("table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const button = make("button", { type: "button", class: "button" }, "Copy as CSV");
  button.addEventListener("click", () => copy(csvRows(table, rows.filter((row) => !row.hidden))));
  const bar = make("div", { class: "bar" }, button);
  box.before(bar);
  if (rows.length < 2) return;
  const firstLine = (cell) => (cell?.querySelector("span") ?? cell)?.textContent ?? "";
  addSortButtons(table.tHead.rows[0], (column, ascending) => {
    rows.sort((a, b) => compare(firstLine(a.cells[column]), firstLine(b.cells[column])) * (ascending ? 1 : -1));
    body.append(...rows);
  });
  const count = make("span", { class: "count", "aria-live": "polite" }, `${rows.length} rows`);
  const label = box.getAttribute("aria-label");
  const filter = make("input", { type: "search", placeholder: "Filter rows", "aria-label": `Filter rows of ${label}` });
  filter.addEventListener("input", () => {
    const text = filter.value.toLowerCase();
    let shownCount = 0;
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(text);
      shownCount += row.hidden ? 0 : 1;
    }
    count.textContent = `${shownCount} of ${rows.length} rows`;
  });
  bar.prepend(filter);
  bar.append(count);
}

// Adds a hint to a box whose content is wider than the box, and to a chart a button that shrinks it to fit.
function addScrollHint(box) {
  const hint = make("p", { class: "hint", hidden: true }, make("span", {}, "More at the side: scroll →"));
  const narrow = matchMedia("(max-width: 47rem)");
  const updateHint = () => { hint.hidden = !(box.scrollWidth > box.clientWidth + 1 || (narrow.matches && box.classList.contains("fitted"))); };
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
  new ResizeObserver(updateHint).observe(box);
}

// Opens the log of a figure: the samples from which it was computed, and the commands of their cells. A ratio comes from two
// variants; a figure without a task (`task` is null) comes from all tasks. `onlyCell` restricts the log to one cell.
function showLog(task, variants, onlyCell = null) {
  const names = variants.map((variant) => run.variants[variant]);
  byId("log-head").textContent = `${task === null ? "All tasks" : run.tasks[task]} — ${names.join(", against ")}`;
  const hasSeveralVariants = variants.length > 1;
  const elements = variants.flatMap((variant) => {
    const rounds = run.cells.flatMap((cell, index) =>
      cell.variant === variant && (onlyCell === null || onlyCell === index) ? roundElements(cell, index, task, hasSeveralVariants) : []);
    return hasSeveralVariants && rounds.length ? [make("h3", {}, run.variants[variant]), ...rounds] : rounds;
  });
  if (!elements.length) elements.push(make("p", {}, run.remark));
  byId("log-body").replaceChildren(...elements);
  byId("log").showModal();
}

// The heading with the samples of a cell, and the list of its commands; empty if the cell has no sample of the task.
function roundElements(cell, index, task, hasSeveralVariants) {
  const valueOf = (metric) => (task === null ? run.values[metric]?.[index]?.find((value) => value != null) : run.values[metric]?.[index]?.[task]);
  const values = run.metrics.map((metric, number) => [metric.name, valueOf(number)]).filter(([, value]) => value != null);
  if (run.metrics.length && !values.length) return [];
  const samples = task === null ? "" : values.slice(0, 4).map(([name, value]) => `${name} ${value}`).join(", ");
  const heading = make(hasSeveralVariants ? "h4" : "h3", {}, `Round ${cell.round + 1}${samples ? ": " + samples : ""}`);
  return [heading, commandList(index, task)];
}

// The commands of a cell, in an element that opens at a click. It is open if a task has few commands.
function commandList(cell, task) {
  const commands = run.log[cell];
  if (!commands) return make("p", {}, run.remark);
  const list = make("ol");
  // Fill the list when it is opened: filling the lists of many cells would take a while.
  const fill = () => list.childElementCount || list.append(...commands.map((command) => commandItem(command, task)));
  const countOfTask = commands.filter(([, , , commandTask]) => commandTask === task).length;
  const open = task !== null && countOfTask <= 3 && commands.length < 60;
  if (open) fill();
  return make("details", { open, on: { toggle: fill } }, make("summary", {}, `${commands.length} commands of its cell`), list);
}

function commandItem([text, end, ms, commandTask], task) {
  const item = make("li", {}, make("code", {}, run.texts[text]), ` — ${run.texts[end]}, ${ms} ms`);
  if (commandTask == null) return item;
  if (task === null) item.append(` (${run.tasks[commandTask]})`);
  if (commandTask === task) {
    item.classList.add("now");
    item.append(" (this task)");
  }
  return item;
}

// A run has many samples, so the document contains only a page of them at a time.
const ROWS_PER_PAGE = 100;
function addSamplesTable(container) {
  if (!run.metrics.length) return;
  // The values of each row; the last two are the indexes of its cell and its task.
  const allRows = [];
  run.cells.forEach((cell, index) => {
    run.tasks.forEach((_, task) => {
      const values = run.values.map((cells) => cells[index]?.[task] ?? null);
      if (values.some((value) => value !== null)) allRows.push([run.tasks[task], run.variants[cell.variant], cell.round + 1, cell.position + 1, ...values, index, task]);
    });
  });
  const names = ["task", "variant", "round", "position", ...run.metrics.map((metric) => metric.name)];
  let shownRows = allRows, page = 0;
  const headerRow = make("tr", {}, ...names.map((name, column) => make("th", { scope: "col", title: run.metrics[column - 4]?.help ?? null }, name)), make("th", { scope: "col" }, "log"));
  const body = make("tbody");
  const count = make("span", { class: "count", "aria-live": "polite" });
  const draw = () => {
    const pageCount = Math.max(1, Math.ceil(shownRows.length / ROWS_PER_PAGE));
    page = Math.min(Math.max(page, 0), pageCount - 1);
    body.replaceChildren(...shownRows.slice(page * ROWS_PER_PAGE, (page + 1) * ROWS_PER_PAGE).map((row) => {
      const [cell, task] = row.slice(-2);
      const log = make("button", { type: "button", class: "button", "aria-label": `Commands of ${row[0]}, ${row[1]}, round ${row[2]}` }, "commands");
      log.addEventListener("click", () => showLog(task, [run.cells[cell].variant], cell));
      const cells = row.slice(0, -2).map((value, column) => make(column ? "td" : "th", column ? {} : { scope: "row" }, value === null ? "" : String(value)));
      return make("tr", {}, ...cells, make("td", {}, log));
    }));
    count.textContent = `${shownRows.length} of ${allRows.length} samples, page ${page + 1} of ${pageCount}`;
    previous.disabled = page === 0;
    next.disabled = page === pageCount - 1;
  };
  const filter = make("input", { type: "search", placeholder: "Filter tasks and variants", "aria-label": "Filter samples" });
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    shownRows = allRows.filter((row) => words.every((word) => `${row[0]} ${row[1]}`.toLowerCase().includes(word)));
    page = 0;
    draw();
  });
  const previous = make("button", { type: "button", class: "button" }, "Previous");
  const next = make("button", { type: "button", class: "button" }, "Next");
  previous.addEventListener("click", () => { page -= 1; draw(); });
  next.addEventListener("click", () => { page += 1; draw(); });
  const button = make("button", { type: "button", class: "button" }, "Copy as CSV");
  button.addEventListener("click", () => copy([names, ...shownRows.map((row) => row.slice(0, -2))]));
  addSortButtons(headerRow, (column, ascending) => {
    if (column >= names.length) return;
    const sign = ascending ? 1 : -1;
    shownRows = [...shownRows].sort((a, b) => (a[column] === null) - (b[column] === null) || sign * compare(a[column], b[column]));
    page = 0;
    draw();
  });
  const table = make("table", { class: "figures" }, make("caption", { class: "unseen" }, "Samples"), make("thead", {}, headerRow), body);
  container.append(make("div", { class: "bar" }, filter, previous, next, button, count), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Samples" }, table));
  draw();
}

// Shows the charts of one scale, which the reader chooses, and hides those of the other.
function enableScaleSwitch() {
  const choice = byId("measure");
  if (!choice) return;
  choice.hidden = false;
  const apply = () => {
    const scale = choice.querySelector(":checked").value;
    for (const figure of document.querySelectorAll("figure[data-form]")) {
      figure.hidden = figure.dataset.form !== "only" && figure.dataset.form !== scale;
    }
  };
  choice.addEventListener("change", apply);
  apply();
}

function enableThemeButton() {
  const button = byId("theme");
  const names = ["as the system", "light", "dark"];
  let current = 0;
  button.hidden = false;
  button.addEventListener("click", () => {
    current = (current + 1) % names.length;
    if (current) document.documentElement.dataset.theme = names[current];
    else delete document.documentElement.dataset.theme;
    button.textContent = `Theme: ${names[current]}`;
  });
}

// Marks the link of the section that the reader has scrolled to.
function markCurrentSection() {
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  document.querySelectorAll("main > section").forEach((section) => observer.observe(section));
}

for (const cell of document.querySelectorAll("td[data-variant]")) {
  const button = make("button", { type: "button", class: "figure", title: "Samples and commands" }, ...cell.childNodes);
  const task = cell.dataset.task === undefined ? null : Number(cell.dataset.task);
  button.addEventListener("click", () => showLog(task, cell.dataset.variant.split(" ").map(Number)));
  cell.replaceChildren(button);
}
document.querySelectorAll("main .scroll").forEach(addTableTools);
enableScaleSwitch();
enableThemeButton();
markCurrentSection();
byId("print").hidden = false;
byId("print").addEventListener("click", () => window.print());
addEventListener("beforeprint", () => document.querySelectorAll("details.code").forEach((d) => { d.open = true; }));
addSamplesTable(byId("samples"));
document.querySelectorAll("main .picture, main .scroll").forEach(addScrollHint);
document.documentElement.dataset.ready = "true";
