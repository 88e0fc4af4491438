// The still parts of the picture. Below: links, and all nodes, however small. Above: the names of the most important
// nodes without overlaps, and the neighborhood of a chosen node. While the picture moves, these parts are moved as they are.

import { colors } from "./dom.js";

const SETTLED_MS = 100;
const STROKE = 400;
const FONT_PX = 13;
const LONGEST = 32;
const SPACING = 4;
const LEAST_RADIUS = 1.5;
const NEAR_RADIUS = 3;
const AREA_OF_NAME = 9_000;

/** Draws on the canvases `links` and `names` over a box; `view` returns the zoom and the pan of the nodes. */
export function layers(box, canvases, state, view) {
  let shown = null;
  let timer = 0;
  let chosen = null;
  const redraw = () => {
    clearTimeout(timer);
    shown = view();
    for (const canvas of Object.values(canvases)) canvas.style.transform = "";
    const color = colors();
    const near = chosen ? neighborhood(state, chosen) : null;
    const below = cleared(canvases.links, box);
    drawLinks(below, state.links.values(), state, shown, color("--line"));
    drawNodes(below, state.nodes.values(), shown, LEAST_RADIUS);
    const above = cleared(canvases.names, box);
    if (near) drawNear(above, near, state, shown, color("--accent"));
    drawNames(above, near ? near.nodes : state.nodes.values(), shown, box, { text: color("--text"), halo: color("--page") });
  };
  const moved = () => {
    if (!shown) return;
    const now = view();
    const scale = now.zoom / shown.zoom;
    const [x, y] = [now.x - scale * shown.x, now.y - scale * shown.y];
    for (const canvas of Object.values(canvases)) canvas.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
    clearTimeout(timer);
    timer = setTimeout(redraw, SETTLED_MS);
  };
  const mark = (id) => {
    chosen = state.nodes.has(id) ? id : null;
    box.classList.toggle("chosen", chosen !== null);
    redraw();
  };
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", redraw);
  return { redraw, moved, mark, close: () => {
    clearTimeout(timer);
    dark.removeEventListener("change", redraw);
  } };
}

function cleared(canvas, box) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = ratio * box.clientWidth;
  canvas.height = ratio * box.clientHeight;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}

/** Returns a node, those that it is linked to, and these links. */
function neighborhood(state, id) {
  const links = [...state.links.values()].filter((l) => l.source === id || l.target === id);
  const ids = new Set([id, ...links.flatMap((l) => [l.source, l.target])]);
  return { links, nodes: [...ids].map((i) => state.nodes.get(i)).filter(Boolean), node: state.nodes.get(id) };
}

function drawLinks(context, links, state, { zoom, x, y }, color) {
  context.strokeStyle = color;
  let count = 0;
  context.beginPath();
  for (const link of links) {
    const [a, b] = [state.nodes.get(link.source)?.at, state.nodes.get(link.target)?.at];
    if (!a || !b) continue;
    context.moveTo(zoom * a.x + x, zoom * a.y + y);
    context.lineTo(zoom * b.x + x, zoom * b.y + y);
    count += 1;
    if (count % STROKE === 0) { // a long path takes more than its parts
      context.stroke();
      context.beginPath();
    }
  }
  context.stroke();
}

function drawNear(context, near, state, view, accent) {
  drawLinks(context, near.links, state, view, accent);
  drawNodes(context, near.nodes, view, NEAR_RADIUS);
  const { at, size } = near.node;
  context.lineWidth = 3;
  context.beginPath();
  context.arc(view.zoom * at.x + view.x, view.zoom * at.y + view.y, Math.max(NEAR_RADIUS, view.zoom * size / 2), 0, 2 * Math.PI);
  context.stroke();
}

function drawNodes(context, nodes, { zoom, x, y }, least) {
  for (const { at, size, color } of nodes) {
    context.fillStyle = color;
    context.beginPath();
    context.arc(zoom * at.x + x, zoom * at.y + y, Math.max(least, zoom * size / 2), 0, 2 * Math.PI);
    context.fill();
  }
}

/** Writes names below their nodes, the most important first: none where another one is. */
function drawNames(context, nodes, { zoom, x, y }, box, { text, halo }) {
  const [width, height] = [box.clientWidth, box.clientHeight];
  const visible = [...nodes].map((n) => ({ n, left: zoom * n.at.x + x, top: zoom * n.at.y + y + zoom * n.size / 2 + 2 }))
    .filter((p) => p.left > 0 && p.left < width && p.top > 0 && p.top < height)
    .sort((p, q) => (q.n.importance ?? 0) - (p.n.importance ?? 0) || q.n.memory_count - p.n.memory_count);
  Object.assign(context, { font: `${FONT_PX}px system-ui, sans-serif`, textAlign: "center", textBaseline: "top",
    lineWidth: 4, lineJoin: "round", strokeStyle: halo, fillStyle: text });
  const taken = [];
  const most = Math.ceil(width * height / AREA_OF_NAME);
  for (const { n, left, top } of visible) {
    if (taken.length >= most) break;
    const name = n.name.length > LONGEST ? `${n.name.slice(0, LONGEST - 1)}…` : n.name;
    const half = context.measureText(name).width / 2 + SPACING;
    const area = [left - half, left + half, top - SPACING, top + FONT_PX + SPACING];
    if (taken.some((t) => t[0] < area[1] && area[0] < t[1] && t[2] < area[3] && area[2] < t[3])) continue;
    taken.push(area);
    context.strokeText(name, left, top);
    context.fillText(name, left, top);
  }
  box.dataset.names = String(taken.length);
}
