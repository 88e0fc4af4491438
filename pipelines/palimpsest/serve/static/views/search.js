import { api } from "../api.js";
import { consequence, newer } from "../changes.js";
import { announce, day, el, field, fill, marked, put } from "../dom.js";
import { option, parametersOf } from "../options.js";
import { tabs } from "../tabs.js";
import { answerGraph } from "./answer_graph.js";
import { compare } from "./compare.js";

const OFTEN = ["collection", "as_of", "k", "history"];
const OF_PAGE = ["q", "subgraph"]; // the field of the question, and the tab of the graph
let wasSubmitted = false;

/** Searches, and shows what was found, the graph around it, and what another build answers. */
export async function search(main, { caller, query }) {
  const schemas = await parametersOf("/search");
  const known = { collection: caller.collections, project: caller.projects };
  const options = new Map([...schemas].filter(([name]) => !OF_PAGE.includes(name)).map(([name, schema]) =>
    [name, option(name, schema, query.getAll(name), known[name])]));
  const question = el("input", { type: "search", required: true, maxlength: schemas.get("q").maxLength, value: query.get("q") ?? "" });
  const rare = [...options.keys()].filter((name) => !OFTEN.includes(name));
  const more = rare.filter((name) => query.has(name)).length;
  const elements = (names) => names.map((name) => options.get(name).element);
  const form = el("form", { role: "search", class: "card", onsubmit: (event) => {
    event.preventDefault();
    const given = [...options].flatMap(([name, { values }]) => values().map((value) => [name, value]));
    const target = `#/search?${new URLSearchParams([["q", question.value], ...given])}`;
    wasSubmitted = true;
    if (location.hash === target) window.dispatchEvent(new HashChangeEvent("hashchange"));
    else location.hash = target;
  } },
    el("div", { class: "row question" }, field("Question", question), el("button", { type: "submit", text: "Search" })),
    el("div", { class: "options" }, elements(OFTEN)),
    el("details", { open: more > 0 }, el("summary", { text: more ? `More options, ${more} set` : "More options" }),
      el("div", { class: "options" }, elements(rare))));
  const results = el("div", { role: "region", "aria-label": "Results", tabindex: "-1" });
  put(main, el("h2", { text: "Search" }), form, results);
  if (!query.get("q")) return question.focus();
  const parameters = new URLSearchParams([...query].filter(([name]) => schemas.has(name)));
  const leave = await run(results, query, parameters);
  if (wasSubmitted) results.focus();
  wasSubmitted = false;
  return leave;
}

/** Asks, and shows the tabs of the answer; returns what is to be done when they are left. */
async function run(results, query, parameters) {
  fill(results, el("p", { text: "Searching ..." }));
  let close = () => {};
  parameters.set("subgraph", "true");
  try {
    const found = await api.search(parameters);
    const parts = [
      { name: "answer", title: "Answer", show: (panel) => answer(panel, found, query) },
      { name: "graph", title: "Graph", show: async (panel) => { close = await answerGraph(panel, found); } },
      { name: "builds", title: "Compare builds", show: (panel) => compare(panel, parameters) },
    ];
    const shown = tabs("Answer", parts, (name) => {
      query.set("tab", name);
      history.replaceState(null, "", `#/search?${query}`);
    });
    fill(results, shown.elements);
    announce(`${found.memories.length} memories found${found.answerable ? "" : ", none is likely to answer"}`);
    await shown.open(parts.some(({ name }) => name === query.get("tab")) ? query.get("tab") : "answer");
  } catch (error) {
    fill(results, el("p", { class: "error", role: "alert", text: error.message }));
  }
  return () => close();
}

function answer(panel, found, query) {
  const isUnlikely = found.memories.length && !found.answerable;
  fill(panel,
    found.memories.length ? null : el("p", { text: "Nothing was found." }),
    isUnlikely ? el("p", { class: "card", text: "No stored memory is likely to answer this. The nearest:" }) : null,
    el("ol", { class: "results" }, found.memories.map((m, at) => shown(m, query.get("q"), at + 1))),
    found.context ? el("details", { class: "card" }, el("summary", { text: `Context for a model, ${found.context_tokens} tokens` }),
      el("p", { class: "meta", text: `A message of role ${found.message.role}:` }), el("pre", { text: found.message.content })) : null);
}

/** One result: its text with the words of the question marked, what is newer, its time and its source. */
export function shown(memory, question, rank) {
  const until = memory.is_latest ? "" : ` until ${day(memory.valid_until)}`;
  const times = [`${day(memory.observed_at)}${until}`, memory.is_pending && "not built yet", consequence(memory)].filter(Boolean).join(", ");
  const address = `#/memory/${memory.memory_id}?${new URLSearchParams({ q: question })}`;
  return el("li", { class: memory.is_latest ? "card" : "card superseded" },
    el("p", {}, memory.speaker ? el("strong", { text: `${memory.speaker}: ` }) : null, marked(memory.text, question)),
    newer(memory),
    memory.why ? el("p", { class: "why", text: memory.why }) : null,
    el("p", { class: "meta" },
      el("span", { text: `[${rank}]` }),
      el("span", { text: times }),
      el("span", { text: memory.uri }),
      el("a", { href: address, text: "source and history", "aria-label": `source and history of: ${memory.text.slice(0, 60)}` })));
}
