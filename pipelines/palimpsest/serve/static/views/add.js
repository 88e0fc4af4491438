import { api } from "../api.js";
import { action, announce, el, field, fill, put } from "../dom.js";
import { events } from "../events.js";

const KEY = "palimpsest-operations";
const ENDED = ["published", "rejected", "deleted", "failed"];
const POLL_MS = 5_000;

/** Sends a text or files, and shows what becomes of what was sent in this tab. */
export async function add(main, { caller }) {
  if (!caller.permissions.includes("write")) {
    put(main, el("h2", { text: "Add" }), el("p", { text: "This token does not allow to write." }));
    return undefined;
  }
  const text = el("textarea", { rows: 5, maxlength: 1000000 });
  const files = el("input", { type: "file", multiple: true });
  const own = caller.own_collections;
  const collection = el("select", {}, own.length ? null : el("option", { value: "", text: "default" }),
    own.map((name) => el("option", { value: name, text: name })));
  const project = el("select", {}, el("option", { value: "", text: "none: general memory" }),
    caller.projects.map((name) => el("option", { value: name, text: name })));
  const list = el("ol", { class: "results", "aria-label": "Operations" });
  const scope = () => ({ collection: collection.value || undefined, project: project.value || undefined });
  const send = action("Send", async () => {
    if (!text.value.trim() && !files.files.length) throw new Error("Write a text, or choose a file.");
    if (text.value.trim()) {
      const received = await api.add({ text: text.value, ...clean(scope()) }, crypto.randomUUID());
      remember(received, text.value.trim().slice(0, 80));
      text.value = "";
    }
    for (const file of files.files) {
      const form = new FormData();
      form.append("file", file);
      for (const [name, value] of Object.entries(clean(scope()))) form.append(name, value);
      remember(await api.add(form, crypto.randomUUID()), file.name);
    }
    files.value = "";
    announce("Received. The next build makes memories of it.");
    draw(list);
  });
  const box = el("section", { class: "card" }, field("Text", text), field("Files", files, "PDF, Word, Markdown, mail, chats and more"),
    el("div", { class: "row" }, field("Collection", collection), field("Project", project)), send);
  accept(box, files);
  put(main, el("h2", { text: "Add" }), box, el("h3", { text: "Operations" }), list);
  draw(list);
  const update = ({ detail }) => change(detail, list);
  events.addEventListener("OPERATION", update);
  const timer = setInterval(() => poll(list), POLL_MS);
  await poll(list);
  return () => {
    events.removeEventListener("OPERATION", update);
    clearInterval(timer);
  };
}

/** Lets files be dropped. */
function accept(box, files) {
  box.addEventListener("dragover", (event) => event.preventDefault());
  box.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) files.files = event.dataTransfer.files;
  });
}

function clean(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value));
}

function stored() {
  return JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
}

function keep(operations) {
  sessionStorage.setItem(KEY, JSON.stringify(operations.slice(0, 100)));
}

function remember(received, what) {
  keep([{ id: received.operation_id, state: received.state, what, reason: "" }, ...stored()]);
}

function change(found, list) {
  const operations = stored();
  const known = operations.find((o) => o.id === found.operation_id);
  if (!known) return;
  known.state = found.state;
  known.reason = found.reason ?? "";
  keep(operations);
  draw(list);
}

async function poll(list) {
  for (const operation of stored().filter((o) => !ENDED.includes(o.state)).slice(0, 10)) {
    try {
      change(await api.operation(operation.id), list);
    } catch {
      return;
    }
  }
}

function draw(list) {
  const operations = stored();
  fill(list, operations.length
    ? operations.map((o) => el("li", { class: "card", "data-state": o.state },
      el("p", {}, el("strong", { text: o.state }), ` ${o.what}`),
      o.reason ? el("p", { class: "why", text: o.reason }) : null,
      el("p", { class: "meta", text: o.id })))
    : el("li", { text: "Nothing was sent from this tab yet." }));
}
