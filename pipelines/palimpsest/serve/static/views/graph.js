import { api } from "../api.js";
import { announce, el, field, fill, put } from "../dom.js";
import { events } from "../events.js";
import { COLORS, draw } from "../graph_drawing.js";
import { describe } from "./node.js";

const LISTED = 200;

/** The caller's graph: drawn, and as a list for those who do not see it. Follows what changes. */
export async function graph(main, { reopen }) {
  const openedAt = performance.now();
  const [loading, reading] = [import("../cytoscape.js"), api.outline()];
  loading.catch(() => {}); // `start` reports it
  const canvas = el("div", { id: "graph", role: "application", tabindex: "0", "aria-roledescription": "picture",
    "aria-label": "Graph; the list has the same nodes. Arrow keys move it, plus and minus zoom, 0 shows all" });
  const panel = el("section", { class: "card", "aria-live": "polite", "aria-label": "Node" },
    el("p", { text: "Choose a node in the picture or in the list." }));
  const find = el("input", { type: "search", maxlength: 256 });
  const list = el("ul", { class: "nodes" });
  const total = el("p", { class: "meta", text: "Reading the graph ..." });
  put(main, el("h2", { text: "Graph" }), total, legend(), el("div", { class: "split" }, canvas,
    el("div", {}, panel, field("Find a node", find), list)));
  let isLeft = false;
  const state = read(await reading);
  const choose = async (id, { move = true } = {}) => {
    const node = state.nodes.get(id);
    picture.mark(id);
    if (!node) return;
    if (move) picture.focus(id);
    await describe(panel, node, choose).catch((error) => announce(error.message, true));
  };
  const picture = draw(canvas, state);
  const show = () => {
    total.textContent = counted(state);
    fill(list, matching(state, find.value).map((n) =>
      el("li", {}, el("button", { type: "button", class: "plain", onclick: () => choose(n.id), text: n.name }),
        el("span", { class: "meta", text: ` ${n.type}, ${n.memory_count} memories` }))));
  };
  find.addEventListener("input", show);
  show();
  const update = ({ detail }) => {
    apply(state, detail);
    state.build = null; // of which build this is, is not known
    picture.update(detail, state);
    show();
    announce(`The graph changed: ${detail.nodes.length} nodes, ${detail.removed.nodes.length} removed`);
    canvas.dataset.updates = String(Number(canvas.dataset.updates ?? 0) + 1);
  };
  const focus = ({ detail }) => choose(detail.node_id);
  const connected = async () => { // what was published before was not sent
    const ready = await api.ready().catch(() => null);
    if (!isLeft && ready && ready.build_id !== state.build) reopen();
  };
  events.addEventListener("GRAPH_UPDATE", update);
  events.addEventListener("NODE_FOCUS", focus);
  events.addEventListener("CONNECTED", connected);
  afterFrame(() => {
    canvas.dataset.drawnMs = String(Math.round(performance.now() - openedAt));
    if (!isLeft) start(picture, loading, choose);
  });
  return () => {
    isLeft = true;
    events.removeEventListener("CONNECTED", connected);
    events.removeEventListener("GRAPH_UPDATE", update);
    events.removeEventListener("NODE_FOCUS", focus);
    picture.close();
  };
}

/** Runs something after what is drawn now is seen. */
function afterFrame(run) {
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(run)));
}

/** Lets the picture be moved once the library is here. */
async function start(picture, loading, choose) {
  try {
    picture.start(await loading, choose);
  } catch {
    announce("The picture cannot be moved: the service does not have the library for it. The list has its nodes.", true);
  }
}

function read(outline) {
  const nodes = new Map(outline.nodes.map((n) => [n.id, n]));
  const links = new Map();
  for (const [a, b] of outline.links) addLink(links, outline.nodes[a].id, outline.nodes[b].id);
  return { nodes, links, build: outline.build_id, hiddenNodes: outline.total_nodes - outline.nodes.length,
    hiddenLinks: outline.total_links - outline.links.length };
}

/** Keeps a link of two nodes once, whichever end comes first. */
function addLink(links, a, b) {
  const [source, target] = a < b ? [a, b] : [b, a];
  if (source !== target) links.set(`${source} ${target}`, { source, target });
}

function counted({ nodes, links, hiddenNodes, hiddenLinks }) {
  const left = hiddenNodes || hiddenLinks
    ? `; less important ones left out: ${hiddenNodes.toLocaleString()} nodes, ${hiddenLinks.toLocaleString()} links` : "";
  return `${nodes.size.toLocaleString()} nodes, ${links.size.toLocaleString()} links${left}`;
}

function legend() {
  return el("ul", { class: "legend", "aria-label": "Colors of the types" }, Object.keys(COLORS).map((type) =>
    el("li", {}, el("span", { class: `dot ${type}`, "aria-hidden": "true" }), type)));
}

function apply(state, { nodes, edges, removed }) {
  for (const id of removed.nodes) state.nodes.delete(id);
  for (const node of nodes) state.nodes.set(node.id, node);
  for (const [key, link] of state.links) {
    if (!state.nodes.has(link.source) || !state.nodes.has(link.target)) state.links.delete(key);
  }
  for (const edge of edges) {
    if (state.nodes.has(edge.source) && state.nodes.has(edge.target)) addLink(state.links, edge.source, edge.target);
  }
}

function matching(state, text) {
  const wanted = text.trim().toLowerCase();
  const found = [];
  for (const node of state.nodes.values()) {
    if (!wanted || node.name.toLowerCase().includes(wanted)) found.push(node);
    if (found.length === LISTED) break;
  }
  return found;
}
