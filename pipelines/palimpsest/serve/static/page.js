// The page: which view is shown follows from the address, after `#`.

import { api, session } from "./api.js";
import { announce, el, fill } from "./dom.js";
import { connect, disconnect, events } from "./events.js";
import { account } from "./views/account.js";
import { add } from "./views/add.js";
import { graph } from "./views/graph.js";
import { memory } from "./views/memory.js";
import { proposals } from "./views/proposals.js";
import { search } from "./views/search.js";
import { signIn } from "./views/sign_in.js";

const VIEWS = {
  search: { title: "Search", show: search },
  add: { title: "Add", show: add },
  graph: { title: "Graph", show: graph },
  proposals: { title: "Proposals", show: proposals },
  account: { title: "Account", show: account },
  memory: { title: "Memory", show: memory, hidden: true },
};
const main = document.getElementById("main");
const nav = document.getElementById("views");
const who = document.getElementById("who");
let caller = null;
let leave = () => {};

function place() {
  const [, path, query] = location.hash.match(/^#?\/?([^?]*)\??(.*)$/s); // a question may have a ? too
  const [name, id = ""] = path.split("/").map(decodeURIComponent);
  return { name: name in VIEWS ? name : "search", id, query: new URLSearchParams(query) };
}

async function show() {
  leave();
  leave = () => {};
  announce("");
  if (!session.token) return showSignIn();
  try {
    caller ??= await api.me();
  } catch (error) {
    if (error.status === 401) return;
    fill(main, el("p", { class: "error", text: error.message }));
    return;
  }
  const { name, id, query } = place();
  nav.hidden = who.hidden = false;
  who.textContent = caller.user;
  const links = Object.entries(VIEWS).filter(([, view]) => !view.hidden);
  fill(nav, links.map(([n, view]) =>
    el("a", { href: `#/${n}`, "aria-current": n === name ? "page" : null, text: view.title })));
  document.title = `${VIEWS[name].title} - Palimpsest`;
  fill(main);
  try {
    leave = (await VIEWS[name].show(main, { caller, id, query, signOut, reload, reopen: show })) ?? (() => {});
  } catch (error) {
    fill(main, el("p", { class: "error", text: error.message }));
  }
  connect(); // after the view: the service reads the whole graph for it
}

function showSignIn(refusal = "") {
  caller = null;
  disconnect();
  nav.hidden = who.hidden = true;
  document.title = "Sign in - Palimpsest";
  fill(main);
  signIn(main, (token) => {
    session.token = token;
    show();
  }, refusal);
}

function signOut() {
  sessionStorage.clear();
  show();
}

/** Reads again who the caller is: memories were added or deleted. */
async function reload() {
  caller = await api.me();
  return caller;
}

document.querySelector(".skip").addEventListener("click", (event) => { // an address after # is a view
  event.preventDefault();
  main.focus();
});
document.addEventListener("keydown", (event) => {
  const open = event.key === "Escape" ? event.target.closest("details[open]") : null;
  if (!open) return;
  open.open = false;
  open.querySelector("summary").focus();
});
window.addEventListener("hashchange", () => {
  show();
  main.focus();
});
window.addEventListener("signed-out", () => {
  if (!session.token) return;
  sessionStorage.clear();
  leave();
  leave = () => {};
  announce("");
  showSignIn("The token is not valid, or it has expired.");
});
events.addEventListener("OPERATION", ({ detail }) => {
  if (["published", "deleted", "failed", "rejected"].includes(detail.state)) {
    announce(`Operation ${detail.operation_id.slice(0, 8)}: ${detail.state}`, detail.state === "failed");
    caller = null;
  }
});
show();
