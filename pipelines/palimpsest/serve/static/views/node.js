// What is known of a node of the graph: its links in words, and the memories that show them.

import { api } from "../api.js";
import { consequence, newer } from "../changes.js";
import { action, announce, day, el, fill } from "../dom.js";

const MAX_LINKS = 100;
const MAX_MEMORIES = 10;

/** Shows a node in a panel; `choose` gets the id of a node that is chosen there. */
export async function describe(panel, node, choose) {
  const near = await api.around(node.name);
  const nodes = new Map(near.nodes.map((n) => [n.id, n]));
  const whole = nodes.get(node.id) ?? node;
  const edges = near.edges.filter((e) => e.source === node.id || e.target === node.id);
  const ids = [...new Set([...edges, ...near.facts.filter((f) => f.subject === node.id)].flatMap((e) => e.memory_ids ?? []))];
  const found = await Promise.all(ids.slice(0, MAX_MEMORIES).map((id) => api.memory(id).catch(() => null)));
  const memories = found.filter(Boolean);
  const counted = node.memory_count === 1 ? "1 memory" : `${node.memory_count} memories`;
  fill(panel,
    el("h3", { text: node.name }),
    el("p", { class: "why" }, el("span", { class: `dot ${node.type}`, "aria-hidden": "true" }), ` ${node.type}, ${counted}`),
    whole.description ? el("p", { text: whole.description }) : null,
    whole.aliases?.length ? el("p", { class: "why", text: `also ${whole.aliases.join(", ")}` }) : null,
    edges.length ? el("h4", { text: "Links" }) : null,
    el("ul", { class: "plain-list" }, edges.slice(0, MAX_LINKS).map((edge) => link(edge, node, nodes, choose))),
    memories.length ? el("h4", { text: "Memories" }) : null,
    el("ul", { class: "plain-list" }, memories.map(memory)),
    ids.length > MAX_MEMORIES ? el("p", { class: "why", text: `and ${ids.length - MAX_MEMORIES} more` }) : null,
    identity(node.id));
}

/** One link, as a sentence: `works for [Heron]`, with its period. */
function link(edge, node, nodes, choose) {
  const isSource = edge.source === node.id;
  const other = nodes.get(isSource ? edge.target : edge.source);
  if (!other) return null;
  const relation = `${edge.is_negated ? "not: " : ""}${edge.type.replaceAll("_", " ")}`;
  const button = el("button", { type: "button", class: "plain", onclick: () => choose(other.id), text: other.name });
  const sentence = isSource ? [`${relation} `, button] : [button, ` ${relation} ${node.name}`];
  return el("li", {}, sentence, el("div", { class: "why", text: period(edge.valid_from, edge.valid_until) }));
}

function memory(found) {
  const begin = found.valid_from ?? found.observed_at;
  const parts = [period(begin, found.is_latest ? null : found.valid_until), consequence(found),
    `from ${found.title || sourceName(found.uri)}`];
  return el("li", {}, el("a", { href: `#/memory/${found.memory_id}`, text: found.text }),
    newer(found), el("div", { class: "why", text: parts.filter(Boolean).join(", ") }));
}

/** Returns from when to when something was valid; nothing where neither is known. */
function period(from, until) {
  if (from && until) return `${day(from)} to ${day(until)}`;
  if (from) return `since ${day(from)}`;
  return until ? `until ${day(until)}` : "";
}

/** Returns the last part of the address of a source. */
function sourceName(uri) {
  return uri?.split("/").filter(Boolean).pop() ?? "an unknown source";
}

function identity(id) {
  return el("details", { class: "why" }, el("summary", { text: "Id" }), el("code", { text: id }), " ",
    action("Copy", async () => {
      await navigator.clipboard.writeText(id);
      announce("The id is copied.");
    }, { class: "plain", "aria-label": "Copy the id" }));
}
