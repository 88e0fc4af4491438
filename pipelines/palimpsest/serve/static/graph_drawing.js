// Draws a graph where the build laid it out. A still picture is there at once; Cytoscape takes longer, and moves it.

import { layers } from "./graph_layers.js";

const UNIT = 40;
const MARGIN = 24;
const LARGE = 2_000;
const REACH = 16;
/** Color of each type of node; the same as in page.css. */
export const COLORS = {
  person: "#c0504d", organisation: "#3f74b5", place: "#4d9a5b", product: "#8064a2", project: "#d08a2c",
  event: "#2f9c9c", category: "#7a7a7a", topic: "#5b6b8c", concept: "#a0738c", date: "#9a8b4f",
};

const PAN = 60;
const PANS = { ArrowLeft: { x: PAN, y: 0 }, ArrowRight: { x: -PAN, y: 0 }, ArrowUp: { x: 0, y: PAN }, ArrowDown: { x: 0, y: -PAN } };
const ZOOMS = { "+": 1.25, "=": 1.25, "-": 0.8 };

/** Lets keys move a picture that has the focus: arrows, plus and minus, 0 for all. */
export function moveByKeys(box, cy) {
  box.addEventListener("keydown", (event) => {
    const { key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || !(key in PANS || key in ZOOMS || key === "0")) return;
    event.preventDefault();
    if (key in PANS) cy.panBy(PANS[key]);
    else if (key === "0") cy.fit(undefined, MARGIN);
    else cy.zoom({ level: cy.zoom() * ZOOMS[key], renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
  });
}

/** Draws a graph at once; it stands still until `start`. */
export function draw(box, state) {
  place(state, [...state.nodes.values()], [...state.links.values()]);
  const canvases = { links: document.createElement("canvas"), names: document.createElement("canvas") };
  const dots = document.createElement("div");
  dots.className = "dots";
  for (const [name, canvas] of Object.entries(canvases)) canvas.className = name;
  box.replaceChildren(canvases.links, dots, canvases.names);
  const still = fitted(state, box);
  let view = () => ({ zoom: still.zoom, ...still.pan });
  const drawn = layers(box, canvases, state, () => view());
  drawn.redraw();
  let cy = null;
  return {
    mark: drawn.mark,
    focus: (id) => cy && focus(cy, state.nodes.get(id)),
    update: (change) => update(cy, drawn, change, state),
    close: () => {
      drawn.close();
      cy?.destroy();
    },
    /** Lets the picture be dragged and zoomed; `choose` gets the id of a node that is clicked, or null. */
    start: ({ default: cytoscape }, choose) => {
      cy = cytoscape({ container: dots, elements: [...state.nodes.values()].map(element), ...OPTIONS, ...still,
        pixelRatio: state.nodes.size > LARGE ? 1 : "auto" });
      view = () => ({ zoom: cy.zoom(), ...cy.pan() });
      cy.on("viewport", drawn.moved);
      cy.on("resize", drawn.redraw);
      cy.on("tap", ({ renderedPosition }) => choose(nearest(state, view(), renderedPosition), { move: false }));
      moveByKeys(box, cy);
      box.cy = cy;
    },
  };
}

const OPTIONS = {
  style: [{ selector: "node", style: {
    width: "data(size)", height: "data(size)", "background-color": "data(color)", events: "no" } }],
  layout: { name: "preset", fit: false }, // to fit, it would measure all elements
  textureOnViewport: true,
  minZoom: 0.01,
  maxZoom: 5,
  boxSelectionEnabled: false,
  autoungrabify: true,
  autounselectify: true,
};

/** Gives each node where it is drawn (`at`), its `size` and its `color`; one without a place is put beside one that it is linked to. */
function place(state, nodes, links) {
  for (const node of nodes) {
    node.size = 8 + 26 * (node.importance ?? 0.2);
    node.color = COLORS[node.type] ?? COLORS.concept;
    if (typeof node.x === "number") {
      node.at = { x: UNIT * node.x, y: -UNIT * node.y };
      continue;
    }
    const link = links.find((l) => l.source === node.id || l.target === node.id);
    const near = link && state.nodes.get(link.source === node.id ? link.target : link.source)?.at;
    node.at = near ? { x: near.x + UNIT, y: near.y + UNIT } : { x: 0, y: 0 };
  }
}

function element({ id, size, color, at }) {
  return { group: "nodes", data: { id, size, color }, position: { ...at } };
}

/** Returns the zoom and the pan that show all nodes. */
function fitted(state, box) {
  const at = [...state.nodes.values()].map((n) => n.at);
  if (!at.length) return { zoom: 1, pan: { x: 0, y: 0 } };
  const [left, right, top, bottom] = at.reduce(([l, r, t, b], p) =>
    [Math.min(l, p.x), Math.max(r, p.x), Math.min(t, p.y), Math.max(b, p.y)], [Infinity, -Infinity, Infinity, -Infinity]);
  const { width, height } = box.getBoundingClientRect();
  const zoom = Math.min(1.5, (width - 2 * MARGIN) / (right - left + UNIT), (height - 2 * MARGIN) / (bottom - top + UNIT));
  return { zoom, pan: { x: width / 2 - zoom * (left + right) / 2, y: height / 2 - zoom * (top + bottom) / 2 } };
}

/** Returns the id of the node nearest to a point of the picture; null where none is near. */
function nearest(state, { zoom, x, y }, point) {
  let best = null;
  let least = 1;
  for (const { id, at, size } of state.nodes.values()) {
    const away = Math.hypot(zoom * at.x + x - point.x, zoom * at.y + y - point.y) / Math.max(REACH, zoom * size / 2);
    if (away < least) [best, least] = [id, away];
  }
  return best;
}

function focus(cy, node) {
  if (!node) return;
  const zoom = Math.max(cy.zoom(), 0.8);
  const view = { zoom, pan: { x: cy.width() / 2 - zoom * node.at.x, y: cy.height() / 2 - zoom * node.at.y } };
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (still) cy.viewport(view);
  else cy.animate({ ...view, duration: 300 });
}

/** Changes only what a GRAPH_UPDATE names. */
function update(cy, drawn, { nodes, edges, removed }, state) {
  place(state, nodes, edges);
  cy?.batch(() => {
    for (const id of removed.nodes) cy.getElementById(id).remove();
    for (const node of nodes) {
      const known = cy.getElementById(node.id);
      if (known.nonempty()) known.data({ size: node.size, color: node.color });
      else cy.add(element(node));
    }
  });
  drawn.redraw();
}
