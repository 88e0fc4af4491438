// Tabs, as the ARIA practices describe them: one is in the order of focus, arrow keys move between them.

import { action, el } from "./dom.js";

const MOVES = { ArrowLeft: (at) => at - 1, ArrowRight: (at) => at + 1, Home: () => 0, End: () => -1 };

/** Makes tabs of `[{ name, title, show(panel) }]`; a panel is filled when it is first opened. `opened` gets the name. */
export function tabs(label, parts, opened) {
  const panels = parts.map(({ name }) =>
    el("section", { role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}`, tabindex: "0", hidden: true }));
  const shown = new Set();
  const open = async (name) => {
    parts.forEach((part, at) => {
      const isIt = part.name === name;
      panels[at].hidden = !isIt;
      buttons[at].setAttribute("aria-selected", String(isIt));
      buttons[at].tabIndex = isIt ? 0 : -1;
    });
    opened(name);
    if (shown.has(name)) return;
    shown.add(name);
    const at = parts.findIndex((part) => part.name === name);
    await parts[at].show(panels[at]);
  };
  const buttons = parts.map(({ name, title }) =>
    action(title, () => open(name), { role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}` }));
  const list = el("div", { role: "tablist", "aria-label": label, onkeydown: (event) => {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    buttons.at(move(buttons.indexOf(event.target)) % buttons.length).focus();
  } }, buttons);
  return { elements: [list, ...panels], open };
}
