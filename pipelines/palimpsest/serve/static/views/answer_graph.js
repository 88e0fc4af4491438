// The graph around an answer: its results, the nodes that they name, and what is between them; drawn, and as a table.

import { announce, colors, el, fill, put } from "../dom.js";
import { COLORS, moveByKeys } from "../graph_drawing.js";
import { describe } from "./node.js";

/** Shows the graph of an answer to a search with `subgraph`; returns what closes it. */
export async function answerGraph(panel, { memories, subgraph }) {
  if (!subgraph?.nodes.length) {
    put(panel, el("p", { text: "The results name no node of the graph." }));
    return () => {};
  }
  const ranks = new Map(memories.map((m, at) => [m.memory_id, at + 1]));
  const nodes = new Map(subgraph.nodes.map((n) => [n.id, n]));
  const rows = statements(subgraph, nodes);
  const about = el("section", { class: "card", "aria-live": "polite", "aria-label": "Node" },
    el("p", { text: "Choose a node in the picture or in the table." }));
  const picture = el("div", { id: "answer-graph", role: "application", tabindex: "0", "aria-roledescription": "picture",
    "aria-label": "Graph around the answer; the table has the same. Arrow keys move it, plus and minus zoom, 0 shows all" });
  let cy = null;
  const choose = async (id) => {
    cy?.elements().unselect();
    cy?.getElementById(id).select();
    if (nodes.has(id)) await describe(about, nodes.get(id), choose).catch((error) => announce(error.message, true));
  };
  put(panel, el("div", { class: "split" }, picture, about), table(rows, nodes, ranks, choose), alone(rows, nodes, choose));
  try {
    cy = draw((await import("../cytoscape.js")).default, picture, { rows, nodes, memories, ranks, relations: subgraph.relations });
  } catch {
    fill(picture, el("p", { text: "The library that draws is not here yet; the table has the same." }));
    return () => {};
  }
  picture.cy = cy;
  cy.on("tap", "node", ({ target }) => (nodes.has(target.id()) ? choose(target.id()) : location.assign(`#/memory/${target.id()}`)));
  const restyle = () => cy.style(style());
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", restyle);
  moveByKeys(picture, cy);
  return () => {
    dark.removeEventListener("change", restyle);
    cy.destroy();
  };
}

/** Edges and facts as rows `{ source, target, words, ids }`; the target of a fact may be a value instead of a node. */
function statements({ edges, facts }, nodes) {
  const words = (text, isNegated) => `${isNegated ? "not: " : ""}${text.replaceAll("_", " ")}`;
  const found = [
    ...facts.map((f) => ({ source: f.subject, target: f.object, value: f.value, words: words(f.predicate, f.is_negated), ids: f.memory_ids })),
    ...edges.filter((e) => e.provenance !== "fact").map((e) => ({ source: e.source, target: e.target, words: words(e.type), isPlain: e.type === "related_to", ids: e.memory_ids })),
  ];
  return found.filter(({ source, target }) => nodes.has(source) && (!target || nodes.has(target)));
}

function draw(cytoscape, container, { rows, nodes, memories, ranks, relations }) {
  const edges = [
    ...rows.filter((row) => row.target).map(({ source, target, words, isPlain }) => ({ source, target, words: isPlain ? "" : words })),
    ...rows.flatMap((row) => row.ids.filter((id) => ranks.has(id)).map((id) => ({ source: id, target: row.source, words: "" }))),
    ...relations.filter((r) => ranks.has(r.source) && ranks.has(r.target)).map((r) => ({ source: r.source, target: r.target, words: r.type.toLowerCase() })),
  ];
  const unique = new Map(edges.map((edge) => [JSON.stringify(edge), { data: edge }]));
  const linked = new Set(edges.flatMap(({ source, target }) => [source, target]));
  return cytoscape({ container, style: style(), minZoom: 0.2, maxZoom: 4,
    elements: {
      nodes: [...[...nodes.values()].map((n) => ({ data: { id: n.id, name: n.name, color: COLORS[n.type] ?? COLORS.concept } })),
        ...memories.filter((m) => linked.has(m.memory_id)).map((m) => ({ classes: "result",
          data: { id: m.memory_id, name: `[${ranks.get(m.memory_id)}]` } }))],
      edges: [...unique.values()],
    },
    layout: { name: "cose", animate: false, padding: 24, nodeDimensionsIncludeLabels: true, idealEdgeLength: () => 60 } });
}

function style() {
  const color = colors();
  const words = { "font-family": "system-ui, sans-serif", color: color("--text"), "text-outline-color": color("--page"), "text-outline-width": 2 };
  return [
    { selector: "node", style: { ...words, label: "data(name)", "font-size": 16, width: 26, height: 26, "background-color": "data(color)",
      "text-valign": "bottom", "text-margin-y": 3, "text-wrap": "ellipsis", "text-max-width": "180px" } },
    { selector: "node.result", style: { shape: "round-rectangle", "background-color": color("--card"), "border-width": 2,
      "border-color": color("--accent"), "text-valign": "center", "text-margin-y": 0, width: 40 } },
    { selector: "edge", style: { ...words, label: "data(words)", "font-size": 12, "text-rotation": "autorotate", width: 1.5,
      "line-color": color("--line"), "curve-style": "bezier", "target-arrow-color": color("--line") } },
    { selector: "edge[words != '']", style: { "target-arrow-shape": "triangle" } },
    { selector: "node:selected", style: { "border-width": 4, "border-color": color("--accent") } },
  ];
}

/** A button that chooses a node. */
function named(node, choose) {
  return el("button", { type: "button", class: "plain", onclick: () => choose(node.id), text: node.name });
}

function table(rows, nodes, ranks, choose) {
  if (!rows.length) return null;
  const cited = (ids) => ids.filter((id) => ranks.has(id)).sort((a, b) => ranks.get(a) - ranks.get(b))
    .flatMap((id) => [el("a", { href: `#/memory/${id}`, text: `[${ranks.get(id)}]` }), " "]);
  return el("table", {}, el("caption", { text: "What is between the nodes, with the results that show it" }),
    el("thead", {}, el("tr", {}, ["Node", "Relation", "Node or value", "Results"].map((text) => el("th", { scope: "col", text })))),
    el("tbody", {}, rows.map((row) => el("tr", {},
      el("td", {}, named(nodes.get(row.source), choose)),
      el("td", { "data-label": "Relation", text: row.words }),
      el("td", { "data-label": "Node or value" }, row.target ? named(nodes.get(row.target), choose) : row.value),
      el("td", { "data-label": "Results" }, cited(row.ids))))));
}

/** The nodes that no row has. */
function alone(rows, nodes, choose) {
  const linked = new Set(rows.flatMap(({ source, target }) => [source, target]));
  const left = [...nodes.values()].filter((n) => !linked.has(n.id));
  return left.length ? el("p", {}, "Also named: ", left.flatMap((n) => [named(n, choose), " "])) : null;
}
