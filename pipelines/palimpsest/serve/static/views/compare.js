// What two builds answer to one question, side by side.

import { api } from "../api.js";
import { consequence } from "../changes.js";
import { action, announce, day, el, field, fill, put } from "../dom.js";
import { parametersOf, select } from "../options.js";

/** Shows what entered, left, moved or changed its state between the answers of two builds. */
export async function compare(panel, parameters) {
  const [{ builds }, known] = await Promise.all([api.builds(), parametersOf("/search/compare")]);
  if (builds.length < 2) {
    put(panel, el("p", { text: "There is no earlier build to compare with yet." }));
    return;
  }
  const titles = new Map(builds.map((b) => [b.build_id, `${b.build_id}, ${day(b.created_at)}${b.is_published ? ", published" : ""}`]));
  const [before, after] = [1, 0].map((at) => {
    const input = select([...titles.keys()], (id) => titles.get(id));
    input.value = builds[at].build_id;
    return input;
  });
  const out = el("div", { class: "compared" });
  const run = async () => {
    const query = new URLSearchParams([...parameters].filter(([name]) => known.has(name)));
    query.set("before", before.value);
    query.set("after", after.value);
    const { memories } = await api.compare(query);
    const changed = memories.filter((m) => m.changes.length).length;
    announce(`${changed} of ${memories.length} memories differ`);
    fill(out, el("p", { text: changed ? `${changed} of ${memories.length} differ.` : "Both builds answer the same." }),
      memories.length ? table(memories, [before, after].map((input) => `Build ${input.value}`)) : null);
  };
  put(panel, el("div", { class: "row" }, field("Earlier build", before), field("Later build", after), action("Compare", run)), out);
  await run();
}

function table(memories, builds) {
  const heads = ["Memory", ...builds, "Change"];
  return el("table", {},
    el("caption", { text: "Memories of both answers: those of the later one first" }),
    el("thead", {}, el("tr", {}, heads.map((text) => el("th", { scope: "col", text })))),
    el("tbody", {}, memories.map((m) => el("tr", { class: m.changes.length ? "changed" : "" },
      el("th", { scope: "row" }, m.speaker ? `${m.speaker}: ` : null, el("a", { href: `#/memory/${m.memory_id}`, text: m.text })),
      [m.before, m.after].map((place, at) => el("td", { "data-label": builds[at], text: inBuild(place) })),
      el("td", { "data-label": "Change", text: changes(m) })))));
}

function inBuild(place) {
  if (!place) return "not in this build";
  return [place.rank ? `rank ${place.rank}` : "not in the answer", consequence(place) || "latest"].join(", ");
}

function changes({ changes: found, before, after }) {
  const words = { entered: "entered", left: "left", moved: after?.rank < before?.rank ? "moved up" : "moved down", state: "state changed" };
  return found.map((change) => words[change]).join(", ") || "none";
}
