// The list of runs: searches while the user types, keeps the list up to date, and shows how many runs are chosen. Without this
// script the buttons do the same. The script replaces the rows of the table by those of a page that the server rendered.
"use strict";

const byId = (id) => document.getElementById(id);
const chosen = new Set();
let requestCount = 0;

// Loads the list at a URL, and replaces the rows, the header and the count. Ignores the response if a newer request was sent.
async function refresh(url) {
  const request = ++requestCount;
  const response = await fetch(url, { headers: { accept: "text/html" } }).catch(() => null);
  if (!response || !response.ok || request !== requestCount) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const [rows, head, count] = [page.querySelector("#runs tbody"), page.querySelector("#runs thead"), page.querySelector("#count")];
  if (!rows || !head || !count || request !== requestCount) return;
  const focused = document.activeElement && document.activeElement.value;
  document.querySelector("#runs tbody").replaceWith(rows);
  document.querySelector("#runs thead").replaceWith(head);
  if (byId("count").textContent !== count.textContent) byId("count").textContent = count.textContent;
  for (const box of checkboxes()) {
    box.checked = chosen.has(box.value);
    if (box.value === focused) box.focus();
  }
  updateChosen();
}

const checkboxes = () => [...document.querySelectorAll("#runs input[name=run]")];

// Updates the set of chosen runs from the checkboxes, and the text and the button below the list.
function updateChosen() {
  for (const box of checkboxes()) box.checked ? chosen.add(box.value) : chosen.delete(box.value);
  byId("compare").disabled = chosen.size < 2;
  byId("chosen").textContent = chosen.size === 0 ? "Choose two or more." : `${chosen.size} chosen`;
}

// The URL of the list with the search words and the sort order of the form.
function listUrl() {
  const query = new URLSearchParams(new FormData(byId("find")));
  return "/?" + query;
}

let searchTimer = 0;
byId("search").addEventListener("input", () => {
  clearTimeout(searchTimer);
  searchTimer = setTimeout(() => {
    history.replaceState(null, "", listUrl());
    refresh(listUrl());
  }, 150);
});
document.addEventListener("change", (event) => {
  if (event.target.name === "run") updateChosen();
});
// The comparison includes chosen runs that the search hides.
byId("choose").addEventListener("submit", (event) => {
  event.preventDefault();
  const query = new URLSearchParams([...chosen].map((run) => ["run", run]));
  location.href = "/compare?" + query;
});
setInterval(() => {
  const changing = document.querySelector("#runs tr[data-pending], #runs tr[data-state=running]");
  if (changing && !document.hidden) refresh(location.href);
}, 3000);
updateChosen();
