import { api } from "../api.js";
import { consequence, newer } from "../changes.js";
import { announce, day, el, field, fill, marked, put } from "../dom.js";

/** Searches, and shows what was found with the context that a model would get. */
export async function search(main, { caller, query }) {
  const question = el("input", { type: "search", required: true, maxlength: 10000, value: query.get("q") ?? "" });
  const asOf = el("input", { type: "date", value: query.get("as_of") ?? "" });
  const history = el("input", { type: "checkbox", checked: query.get("history") === "true" });
  const collection = el("select", {}, el("option", { value: "", text: "all" }),
    caller.collections.map((name) => el("option", { value: name, text: name })));
  collection.value = query.get("collection") ?? "";
  const results = el("section", { "aria-label": "Results" });
  const form = el("form", { role: "search", class: "card" },
    field("Question", question),
    el("div", { class: "row" },
      field("Collection", collection),
      field("As of", asOf),
      field("Superseded versions too", history)),
    el("button", { type: "submit", text: "Search" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = { q: question.value, as_of: asOf.value, collection: collection.value, history: history.checked || "" };
    const kept = Object.entries(given).filter(([, value]) => value !== "");
    const target = `#/search?${new URLSearchParams(kept)}`;
    if (location.hash === target) run(results, query);
    else location.hash = target;
  });
  put(main, el("h2", { text: "Search" }), form, results);
  if (query.get("q")) await run(results, query);
  else question.focus();
}

async function run(results, query) {
  fill(results, el("p", { text: "Searching ..." }));
  const end = query.get("as_of") ? `${query.get("as_of")}T23:59:59Z` : "";
  const found = await api.search({ q: query.get("q"), collection: query.get("collection"), as_of: end,
    history: query.get("history"), k: 10 });
  announce(`${found.memories.length} memories found${found.answerable ? "" : ", none is likely to answer"}`);
  fill(results,
    found.memories.length ? null : el("p", { text: "Nothing was found. What was just added is searched after the next build." }),
    found.memories.length && !found.answerable
      ? el("p", { class: "card", text: "No stored memory is likely to answer this. The nearest:" }) : null,
    el("ol", { class: "results" }, found.memories.map((m) => shown(m, query.get("q")))),
    found.context
      ? el("details", { class: "card" }, el("summary", { text: `Context for a model, ${found.context_tokens} tokens` }),
        el("pre", { text: found.context }))
      : null);
}

/** One result: its text with the words of the question marked, what is newer, its time and its source. */
export function shown(memory, question) {
  const until = memory.is_latest ? "" : ` until ${day(memory.valid_until)}`;
  const times = [`${day(memory.observed_at)}${until}`, consequence(memory)].filter(Boolean).join(", ");
  const address = `#/memory/${memory.memory_id}?${new URLSearchParams({ q: question })}`;
  return el("li", { class: memory.is_latest ? "card" : "card superseded" },
    el("p", {}, memory.speaker ? el("strong", { text: `${memory.speaker}: ` }) : null, marked(memory.text, question)),
    newer(memory),
    el("p", { class: "meta" },
      el("span", { text: times }),
      el("span", { text: memory.uri }),
      el("a", { href: address, text: "source and history", "aria-label": `source and history of: ${memory.text.slice(0, 60)}` })));
}
