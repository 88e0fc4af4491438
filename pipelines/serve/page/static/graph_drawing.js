// Draws a graph with Cytoscape where the build laid it out. While it moves, a picture of it moves.

const UNIT = 40;
const LABELS_FROM = 9;
/** Color of each type of node; the same as in page.css. */
export const COLORS = {
  person: "#c0504d", organisation: "#3f74b5", place: "#4d9a5b", product: "#8064a2", project: "#d08a2c",
  event: "#2f9c9c", category: "#7a7a7a", topic: "#5b6b8c", concept: "#a0738c", date: "#9a8b4f",
};

/** Draws a graph; `choose` gets the id of a node that is clicked. Returns what moves and changes the picture. */
export async function draw(canvas, state, choose) {
  const { default: cytoscape } = await import("./cytoscape.js");
  const started = performance.now();
  const cy = cytoscape({
    container: canvas,
    elements: [...state.nodes.values()].map(nodeElement).concat(linkElements(state.links.values())),
    style: style(),
    layout: { name: "preset" },
    textureOnViewport: true,
    hideEdgesOnViewport: state.links.size > 2_000,
    pixelRatio: 1,
    minZoom: 0.01,
    maxZoom: 5,
    boxSelectionEnabled: false,
    autoungrabify: true,
  });
  cy.one("render", () => { canvas.dataset.drawnMs = String(Math.round(performance.now() - started)); });
  cy.on("tap", "node", (event) => choose(event.target.id(), { move: false }));
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const restyle = () => cy.style(style());
  dark.addEventListener("change", restyle);
  canvas.cy = cy;
  return {
    focus: (id) => focus(cy, id),
    update: (change, now) => update(cy, change, now),
    close: () => {
      dark.removeEventListener("change", restyle);
      cy.destroy();
    },
  };
}

function nodeElement(node) {
  const importance = node.importance ?? 0.2;
  const size = 8 + 26 * importance;
  return {
    group: "nodes",
    data: { id: node.id, name: node.name, color: COLORS[node.type] ?? COLORS.concept, size, font: 10 + 24 * importance ** 2 },
    position: { x: UNIT * (node.x ?? 0), y: -UNIT * (node.y ?? 0) },
  };
}

function linkElements(links) {
  return [...links].map(({ source, target }) => ({ group: "edges", data: { id: `${source} ${target}`, source, target } }));
}

function style() {
  const css = getComputedStyle(document.documentElement);
  const color = (name) => css.getPropertyValue(name).trim();
  return [
    { selector: "node", style: {
      width: "data(size)", height: "data(size)", "background-color": "data(color)", label: "data(name)", color: color("--text"),
      "font-size": "data(font)", "min-zoomed-font-size": LABELS_FROM, "text-outline-width": 2, "text-outline-color": color("--page") } },
    { selector: "edge", style: {
      width: 1, "line-color": color("--line"), "curve-style": "haystack", events: "no" } },
    { selector: "node:selected", style: { "border-width": 4, "border-color": color("--accent"), "z-index": 10 } },
  ];
}

function focus(cy, id) {
  const node = cy.getElementById(id);
  if (node.empty()) return;
  cy.elements(":selected").unselect();
  node.select();
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const view = { center: { eles: node }, zoom: Math.max(cy.zoom(), 1) };
  if (still) cy.animate({ ...view, duration: 0 });
  else cy.animate({ ...view, duration: 300 });
}

/** Changes only what a GRAPH_UPDATE names; a node without a place is put beside one that it is linked to. */
function update(cy, { nodes, edges, removed }, state) {
  cy.batch(() => {
    for (const id of removed.nodes) cy.getElementById(id).remove();
    for (const node of nodes) {
      const known = cy.getElementById(node.id);
      const element = nodeElement(node);
      if (known.nonempty()) {
        known.data(element.data);
        continue;
      }
      const link = edges.find((e) => e.source === node.id || e.target === node.id);
      const near = link && cy.getElementById(link.source === node.id ? link.target : link.source);
      if (typeof node.x !== "number" && near?.nonempty()) {
        element.position = { x: near.position("x") + UNIT, y: near.position("y") + UNIT };
      }
      cy.add(element);
    }
    cy.add(linkElements(state.links.values()).filter((e) => cy.getElementById(e.data.id).empty()));
  });
}
