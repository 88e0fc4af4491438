import { api } from "../api.js";
import { consequence, newer } from "../changes.js";
import { action, announce, day, el, fill, marked, put } from "../dom.js";

/** One memory: its place in its source, the versions of its fact, and what can be done with it. */
export async function memory(main, { caller, id, query }) {
  const [found, source, history] = await Promise.all([api.memory(id), api.source(id), api.history(id)]);
  const isOwn = found.user_id === caller.user;
  const mayWrite = isOwn && caller.permissions.includes("write");
  const mayDelete = isOwn && caller.permissions.includes("delete");
  put(main,
    el("h2", { text: "Memory" }),
    facts({ ...found, history: history.versions }),
    el("section", { class: "card" }, el("h3", { text: `Source: ${found.uri}` }),
      inSource(source.memories, id, query.get("q") ?? "")),
    el("section", { class: "card" }, el("h3", { text: "History of the fact" }),
      timeline(history.versions, id, mayWrite)),
    mayWrite ? editor(found) : null,
    mayDelete ? remover(found) : null);
}

function facts(found) {
  const rows = {
    State: [found.is_latest ? "latest" : "", consequence(found)].filter(Boolean).join(", "),
    Type: found.type,
    Observed: day(found.observed_at),
    Collection: found.collection + (found.project_id ? `, project ${found.project_id}` : ""),
    Session: found.session_id,
    Tags: (found.tags ?? []).join(", "),
    Id: found.memory_id,
  };
  return el("section", { class: "card" }, el("p", { class: "quote", text: found.text }), newer(found, 0),
    el("dl", {}, Object.entries(rows).filter(([, v]) => v).map(([name, value]) =>
      el("div", {}, el("dt", { text: name }), el("dd", { text: value })))));
}

function inSource(memories, id, question) {
  const box = el("div", { class: "source", tabindex: "0", role: "group", "aria-label": "Text of the source" });
  for (const m of memories) {
    const isIt = m.memory_id === id;
    const text = isIt ? el("mark", { class: "evidence" }, marked(m.text, question)) : m.text;
    const speaker = m.speaker ? el("strong", { text: `${m.speaker}: ` }) : null;
    box.append(isIt ? el("p", {}, speaker, text)
      : el("p", {}, speaker, text, " ", el("a", { href: `#/memory/${m.memory_id}`, text: "open", "aria-label": `open: ${m.text.slice(0, 60)}` })));
  }
  requestAnimationFrame(() => {
    const mark = box.querySelector(".evidence");
    if (mark) box.scrollTop = mark.offsetTop - box.offsetTop - box.clientHeight / 3;
  });
  return box;
}

function timeline(versions, id, mayWrite) {
  return el("ol", { class: "timeline" }, versions.map((v) => {
    const isIt = v.memory_id === id;
    const period = v.is_latest ? `since ${day(v.valid_from)}` : `${day(v.valid_from)} to ${day(v.valid_until)}`;
    return el("li", { class: v.is_latest ? "latest" : "", "aria-current": isIt ? "true" : null },
      el("p", { class: "meta" }, el("span", { text: period }), el("span", { text: v.uri })),
      el("p", {}, isIt ? v.text : el("a", { href: `#/memory/${v.memory_id}`, text: v.text })),
      newer(v),
      v.why ? el("p", { class: "why", text: v.why.text }) : null,
      v.why?.relation_id && mayWrite ? undoButton(v) : null);
  }));
}

function undoButton(version) {
  return action("Not replaced: undo", async (button) => {
    const done = await api.undo(version.memory_id);
    button.hidden = true;
    announce(done.stays_retired ? `Taken back, but ${done.stays_retired}.` : "Taken back. The next build serves it again.");
  }, { "aria-label": `Not replaced: undo, of: ${version.text.slice(0, 60)}` });
}

function editor(found) {
  const text = el("textarea", { id: "new-words", rows: 4, maxlength: 20000, value: found.text });
  return el("details", { class: "card" }, el("summary", { text: "Edit" }),
    el("label", { for: "new-words", text: "New words" }), text,
    el("p", { class: "meta", text: "The next build forms it anew. What it was stays as history." }),
    action("Save", async () => {
      await api.edit(found.memory_id, text.value);
      announce("Saved. The next build forms it.");
    }));
}

function remover(found) {
  const box = el("details", { class: "card danger" }, el("summary", { text: "Delete" }));
  const sure = el("input", { type: "checkbox", id: "sure" });
  const button = action("Delete for good", async () => {
    if (!sure.checked) throw new Error("Confirm first that it is to be deleted from every build and copy.");
    const begun = await api.remove(found.memory_id);
    announce(`Delete begun: operation ${begun.operation_id.slice(0, 8)}. It ends with a proof.`);
    fill(box, el("summary", { text: "Delete" }), el("p", { text: "It is being deleted." }));
  });
  box.append(el("p", {}, sure, " ", el("label", { for: "sure", text: "From every build and copy; it cannot be brought back." })), button);
  return box;
}
