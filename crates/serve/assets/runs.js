// The list of runs: searches while one types, keeps itself up to date, and says how many runs are chosen. It works
// without, by the buttons. What comes from the server is a page of its own making; rows are taken over as they are.
"use strict";

const byId = (id) => document.getElementById(id);
const chosen = new Set();
let asked = 0;

// Takes over the rows and the count of another state of the list.
async function refresh(address) {
  const mine = ++asked;
  const answer = await fetch(address, { headers: { accept: "text/html" } }).catch(() => null);
  if (!answer || !answer.ok || mine !== asked) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [rows, head, count] = [page.querySelector("#runs tbody"), page.querySelector("#runs thead"), page.querySelector("#count")];
  if (!rows || !head || !count || mine !== asked) return;
  const focused = document.activeElement && document.activeElement.value;
  document.querySelector("#runs tbody").replaceWith(rows);
  document.querySelector("#runs thead").replaceWith(head);
  if (byId("count").textContent !== count.textContent) byId("count").textContent = count.textContent;
  for (const box of boxes()) {
    box.checked = chosen.has(box.value);
    if (box.value === focused) box.focus();
  }
  choose();
}

const boxes = () => [...document.querySelectorAll("#runs input[name=run]")];

function choose() {
  for (const box of boxes()) box.checked ? chosen.add(box.value) : chosen.delete(box.value);
  byId("compare").disabled = chosen.size < 2;
  byId("chosen").textContent = chosen.size === 0 ? "Choose two or more." : `${chosen.size} chosen`;
}

function address() {
  const query = new URLSearchParams(new FormData(byId("find")));
  return "/?" + query;
}

let typing = 0;
byId("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    history.replaceState(null, "", address());
    refresh(address());
  }, 150);
});
document.addEventListener("change", (event) => {
  if (event.target.name === "run") choose();
});
// Chosen runs that a search hides are compared all the same.
byId("choose").addEventListener("submit", (event) => {
  event.preventDefault();
  const query = new URLSearchParams([...chosen].map((run) => ["run", run]));
  location.href = "/compare?" + query;
});
setInterval(() => {
  const changing = document.querySelector("#runs tr[data-pending], #runs tr[data-state=running]");
  if (changing && !document.hidden) refresh(location.href);
}, 3000);
choose();
