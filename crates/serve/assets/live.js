// Watches a run: listens to its events and shows how it stands. Whatever comes goes into the page as text only.
"use strict";

const byId = (id) => document.getElementById(id);
const live = byId("live");
const LINES = 200;
let state = null;

function text(id, words) {
  if (byId(id).textContent !== words) byId(id).textContent = words;
}

function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return h > 0 ? `${h} h ${m} min` : m > 0 ? `${m} min ${String(s).padStart(2, "0")} s` : `${s} s`;
}

function rows(id, box, values) {
  byId(box).hidden = values.length === 0;
  const row = (cells) => {
    const tr = document.createElement("tr");
    cells.forEach((words, at) => {
      const cell = document.createElement(at ? "td" : "th");
      if (!at) cell.scope = "row";
      cell.textContent = words;
      tr.append(cell);
    });
    return tr;
  };
  byId(id).tBodies[0].replaceChildren(...values.map(row));
}

const variant = ({ variant, known, narrowing }) => [variant, known, narrowing];
const claim = ({ claim, outcome, known, rounds, narrowing }) => [claim, outcome, known, String(rounds), narrowing];

// What runs now, and how far it is.
function progress() {
  const now = state.ended ? "Ended" : state.variant ? state.variant + (state.phase ? `: ${state.phase}` : "") : "…";
  text("now", now);
  byId("round").hidden = state.ended !== null;
  byId("round").max = Math.max(1, state.tasks_of_round);
  byId("round").value = Math.min(state.tasks, state.tasks_of_round);
  const round = state.round === null ? "" : `round ${state.round + 1}, `;
  text("tasks", state.tasks_of_round ? `${round}task ${state.tasks} of ${state.tasks_of_round}` : "");
}

function show() {
  live.dataset.rounds = state.done;
  progress();
  byId("run").hidden = state.planned === null;
  byId("run").max = Math.max(1, state.planned ?? 1);
  byId("run").value = Math.min(state.done, state.planned ?? 0);
  text("rounds", state.planned === null ? `${state.done} rounds done` : `${state.done} of ${state.planned} rounds done`);
  text("left", state.left_s === null ? "" : `, ${state.at_most ? "at most" : "about"} ${duration(state.left_s)} left`);
  rows("variants", "variants-box", state.variants.map(variant));
  rows("claims-so-far", "claims-box", state.claims.map(claim));
  byId("words").replaceChildren(...state.words.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
  tick();
}

function tick() {
  if (!state || state.begun_at_s === null) return;
  const until = state.ended ? state.told_at_s : Date.now() / 1000;
  text("elapsed", `after ${duration(until - state.begun_at_s)}`);
}

// One event in words.
function told(event) {
  const inside = event.what ?? {};
  switch (event.run_event) {
    case "round_started": return `round ${event.round + 1} begins: ${event.order.join(", ")}`;
    case "round_finished": return `round ${event.round + 1} is done`;
    case "cell_started": return `${event.cell.variant.name} begins`;
    case "cell_finished": return event.outcome.outcome === "failed" ? `failed: ${event.outcome.why}` : `cell ${event.outcome.outcome}`;
    case "run_finished": return `the run ended: ${event.why}`;
    case "forecast": return event.text;
    case "note": return event.text;
    case "cell":
      if (inside.event === "phase") return inside.name;
      if (inside.event === "sample") return `measured: ${inside.task.title}`;
      return inside.text ?? null;
    default: return null;
  }
}

function connection(word) {
  live.dataset.state = word;
  text("connection", word);
}

const source = new EventSource(live.dataset.events);
source.addEventListener("open", () => connection("running"));
source.addEventListener("error", () => {
  if (live.dataset.state !== "ended") connection(source.readyState === EventSource.CLOSED ? "lost; reload the page" : "lost");
});
source.addEventListener("state", (message) => {
  state = JSON.parse(message.data);
  show();
});
source.addEventListener("told", (message) => {
  const words = told(JSON.parse(message.data).event);
  if (!words) return;
  byId("told").append(Object.assign(document.createElement("li"), { textContent: words }));
  while (byId("told").children.length > LINES) byId("told").firstChild.remove();
});
source.addEventListener("end", (message) => {
  source.close();
  state = JSON.parse(message.data);
  show();
  connection("ended");
  const ended = byId("ended");
  ended.textContent = `The run has ended: ${state.ended.why}.`;
  ended.hidden = false;
  text("report", "The report");
});
setInterval(tick, 1000);
