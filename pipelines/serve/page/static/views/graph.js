import { api } from "../api.js";
import { announce, day, el, field, fill, put } from "../dom.js";
import { events } from "../events.js";
import { COLORS, draw } from "../graph_drawing.js";

const MAX_NODES = 20_000;
const LISTED = 200;

/** The caller's graph: drawn, and as a list for those who do not see it. Follows what changes. */
export async function graph(main) {
  const canvas = el("div", { id: "graph", role: "img", "aria-label": "Picture of the graph; the list below has the same nodes" });
  const panel = el("section", { class: "card", "aria-live": "polite", "aria-label": "Node" },
    el("p", { text: "Choose a node in the picture or in the list." }));
  const find = el("input", { type: "search", maxlength: 256 });
  const list = el("ul", { class: "nodes" });
  const total = el("p", { class: "meta", text: "Reading the graph ..." });
  put(main, el("h2", { text: "Graph" }), total, legend(), el("div", { class: "split" }, canvas,
    el("div", {}, panel, field("Find a node", find), list)));
  const state = { nodes: new Map(), edges: new Map() };
  const stop = { requested: false };
  for (let offset = 0; offset !== null && state.nodes.size < MAX_NODES && !stop.requested;) {
    const page = await api.graph(offset);
    for (const node of page.nodes) state.nodes.set(node.id, node);
    for (const edge of page.edges) state.edges.set(edgeId(edge), edge);
    total.textContent = `${page.total.toLocaleString()} nodes`;
    offset = page.next_offset;
  }
  total.textContent = `${state.nodes.size.toLocaleString()} nodes, ${state.edges.size.toLocaleString()} edges`;
  const picture = await drawn(canvas, state, (id) => choose(id));
  const choose = async (id, { move = true } = {}) => {
    const node = state.nodes.get(id);
    if (!node) return;
    if (move) picture?.focus(id);
    await describe(panel, node, state, choose);
  };
  const listNodes = () => fill(list, matching(state, find.value).map((n) =>
    el("li", {}, el("button", { type: "button", class: "plain", onclick: () => choose(n.id), text: n.name }),
      el("span", { class: "meta", text: ` ${n.type}, ${n.memory_count} memories` }))));
  find.addEventListener("input", listNodes);
  listNodes();
  const update = ({ detail }) => {
    apply(state, detail);
    picture?.update(detail, state);
    total.textContent = `${state.nodes.size.toLocaleString()} nodes, ${state.edges.size.toLocaleString()} edges`;
    listNodes();
    announce(`The graph changed: ${detail.nodes.length} nodes, ${detail.removed.nodes.length} removed`);
    canvas.dataset.updates = String(Number(canvas.dataset.updates ?? 0) + 1);
  };
  const focus = ({ detail }) => choose(detail.node_id);
  events.addEventListener("GRAPH_UPDATE", update);
  events.addEventListener("NODE_FOCUS", focus);
  return () => {
    stop.requested = true;
    events.removeEventListener("GRAPH_UPDATE", update);
    events.removeEventListener("NODE_FOCUS", focus);
    picture?.close();
  };
}

async function drawn(canvas, state, choose) {
  try {
    return await draw(canvas, state, choose);
  } catch {
    fill(canvas, el("p", { text: "The graph cannot be drawn: the service does not have the library for it. The list has its nodes." }));
    return null;
  }
}

function legend() {
  return el("ul", { class: "legend", "aria-label": "Colors of the types" }, Object.keys(COLORS).map((type) =>
    el("li", {}, el("span", { class: `dot ${type}`, "aria-hidden": "true" }), type)));
}

function edgeId(edge) {
  return edge.id ?? [edge.source, edge.target, edge.type, edge.fact_id ?? ""].join(" ");
}

function apply(state, { nodes, edges, removed }) {
  for (const id of removed.nodes) state.nodes.delete(id);
  for (const node of nodes) state.nodes.set(node.id, { ...state.nodes.get(node.id), ...node });
  for (const [key, edge] of state.edges) {
    if (!state.nodes.has(edge.source) || !state.nodes.has(edge.target)) state.edges.delete(key);
  }
  for (const edge of edges) state.edges.set([edge.source, edge.target, edge.type, edge.fact_id ?? ""].join(" "), edge);
}

function matching(state, text) {
  const wanted = text.trim().toLowerCase();
  const found = [];
  for (const node of state.nodes.values()) {
    const names = [node.name, ...(node.aliases ?? [])];
    if (!wanted || names.some((n) => n.toLowerCase().includes(wanted))) found.push(node);
    if (found.length === LISTED) break;
  }
  return found;
}

async function describe(panel, node, state, choose) {
  const links = [...state.edges.values()].filter((e) => e.source === node.id || e.target === node.id).slice(0, 100);
  const memories = [...new Set(links.flatMap((e) => e.memory_ids ?? []))].slice(0, 20);
  fill(panel,
    el("h3", { text: node.name }),
    el("p", { class: "meta" }, el("span", { class: `dot ${node.type}`, "aria-hidden": "true" }), ` ${node.type}, ${node.memory_count} memories, since ${day(node.created_at)}`),
    node.description ? el("p", { text: node.description }) : null,
    (node.aliases ?? []).length ? el("p", { class: "meta", text: `also ${node.aliases.join(", ")}` }) : null,
    links.length ? el("h4", { text: "Edges" }) : null,
    el("ul", {}, links.map((edge) => {
      const isSource = edge.source === node.id;
      const other = state.nodes.get(isSource ? edge.target : edge.source);
      return other ? el("li", {}, isSource ? `${words(edge.type)} ` : "",
        el("button", { type: "button", class: "plain", onclick: () => choose(other.id), text: other.name }),
        isSource ? "" : ` ${words(edge.type)} it`) : null;
    })),
    memories.length ? el("h4", { text: "Memories of these edges" }) : null,
    el("ul", {}, memories.map((id) => el("li", {}, el("a", { href: `#/memory/${id}`, text: id })))));
}

function words(type) {
  return type.replaceAll("_", " ");
}
