// Shows a run in progress: receives its events and its state, which go into the page only as text.
"use strict";

const byId = (id) => document.getElementById(id);
const live = byId("live");
const MAX_EVENT_LINES = 200;
// The last state of the run that the server sent.
let state = null;

function setText(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

function formatDuration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return h > 0 ? `${h} h ${m} min` : m > 0 ? `${m} min ${String(s).padStart(2, "0")} s` : `${s} s`;
}

// Replaces the rows of a table, each an array of texts. Hides the box of the table if there are none.
function replaceRows(tableId, boxId, rows) {
  byId(boxId).hidden = rows.length === 0;
  const rowElement = (texts) => {
    const tr = document.createElement("tr");
    texts.forEach((text, column) => {
      const cell = document.createElement(column ? "td" : "th");
      if (!column) cell.scope = "row";
      cell.textContent = text;
      tr.append(cell);
    });
    return tr;
  };
  byId(tableId).tBodies[0].replaceChildren(...rows.map(rowElement));
}

const variantRow = ({ variant, known, narrowing }) => [variant, known, narrowing];
const claimRow = ({ claim, outcome, known, rounds, narrowing }) => [claim, outcome, known, String(rounds), narrowing];

// Shows the variant that runs now, and the progress of its round.
function showRoundProgress() {
  const now = state.ended ? "Ended" : state.variant ? state.variant + (state.phase ? `: ${state.phase}` : "") : "…";
  setText("now", now);
  byId("round").hidden = state.ended !== null;
  byId("round").max = Math.max(1, state.tasks_of_round);
  byId("round").value = Math.min(state.tasks, state.tasks_of_round);
  const round = state.round === null ? "" : `round ${state.round + 1}, `;
  setText("tasks", state.tasks_of_round ? `${round}task ${state.tasks} of ${state.tasks_of_round}` : "");
}

function showState() {
  live.dataset.rounds = state.done;
  showRoundProgress();
  byId("run").hidden = state.planned === null;
  byId("run").max = Math.max(1, state.planned ?? 1);
  byId("run").value = Math.min(state.done, state.planned ?? 0);
  setText("rounds", state.planned === null ? `${state.done} rounds done` : `${state.done} of ${state.planned} rounds done`);
  setText("left", state.left_s === null ? "" : `, ${state.at_most ? "at most" : "about"} ${formatDuration(state.left_s)} left`);
  replaceRows("variants", "variants-box", state.variants.map(variantRow));
  replaceRows("claims-so-far", "claims-box", state.claims.map(claimRow));
  byId("words").replaceChildren(...state.words.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
  showElapsedTime();
}

function showElapsedTime() {
  if (!state || state.begun_at_s === null) return;
  const end = state.ended ? state.told_at_s : Date.now() / 1000;
  setText("elapsed", `after ${formatDuration(end - state.begun_at_s)}`);
}

// An event in words; null for an event that the page does not list.
function describeEvent(event) {
  const cellEvent = event.what ?? {};
  switch (event.run_event) {
    case "round_started": return `round ${event.round + 1} begins: ${event.order.join(", ")}`;
    case "round_finished": return `round ${event.round + 1} is done`;
    case "cell_started": return `${event.cell.variant.name} begins`;
    case "cell_finished": return event.outcome.outcome === "failed" ? `failed: ${event.outcome.why}` : `cell ${event.outcome.outcome}`;
    case "run_finished": return `the run ended: ${event.why}`;
    case "forecast": return event.text;
    case "note": return event.text;
    case "cell":
      if (cellEvent.event === "phase") return cellEvent.name;
      if (cellEvent.event === "sample") return `measured: ${cellEvent.task.title}`;
      return cellEvent.text ?? null;
    default: return null;
  }
}

// Shows the state of the connection: connecting, running, lost or ended. The hint tells the reader what to do.
function showConnection(status, hint = "") {
  live.dataset.state = status;
  setText("connection", status + hint);
}

const source = new EventSource(live.dataset.events);
source.addEventListener("open", () => showConnection("running"));
source.addEventListener("error", () => {
  if (live.dataset.state !== "ended") showConnection("lost", source.readyState === EventSource.CLOSED ? "; reload the page" : "");
});
source.addEventListener("state", (message) => {
  state = JSON.parse(message.data);
  showState();
});
source.addEventListener("told", (message) => {
  const text = describeEvent(JSON.parse(message.data).event);
  if (!text) return;
  byId("told").append(Object.assign(document.createElement("li"), { textContent: text }));
  while (byId("told").children.length > MAX_EVENT_LINES) byId("told").firstChild.remove();
});
source.addEventListener("end", (message) => {
  source.close();
  state = JSON.parse(message.data);
  showState();
  showConnection("ended");
  const ended = byId("ended");
  ended.textContent = `The run has ended: ${state.ended.why}.`;
  ended.hidden = false;
  setText("report", "The report");
});
setInterval(showElapsedTime, 1000);
