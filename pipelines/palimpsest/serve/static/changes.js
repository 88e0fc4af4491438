// What newer memories mean for an older one: superseded, disputed, or nothing that is certain.

import { day, el } from "./dom.js";

/** Whether a newer memory ended a part of this one. */
const isCut = (memory) => memory.is_cut || (memory.later ?? []).some((newer) => newer.why === "part");

/** What follows for a memory, in words; nothing where it is latest and whole. */
export function consequence(memory) {
  if (!memory.is_latest) return "superseded";
  return [memory.disputed_by && "disputed", isCut(memory) && "superseded in part",
    memory.source_unreadable && "last good version of an unreadable source"].filter(Boolean).join(", ");
}

/** What superseded a memory, where its history is known: the newer memory, or why in words. */
function superseded(memory) {
  if (memory.is_latest) return [];
  const version = (id) => (memory.history ?? []).find((v) => v.memory_id === id);
  const by = version(memory.superseded_by);
  const why = version(memory.memory_id)?.why;
  if (by) return [line("superseded by", by)];
  return why ? [el("p", { class: "why", text: why.text })] : [];
}

/**
 * What superseded or disputes a memory, what ended a part of it, and what was said later and ended it with this likelihood: a line
 * each, with its day and a link.
 */
export function newer(memory, leastLikelihood = 0.1) {
  const isShown = (m) => m.why !== "later" || (m.likelihood ?? 1) >= leastLikelihood;
  return [
    ...superseded(memory),
    memory.disputed_by ? line("disputed by", memory.disputed_by) : null,
    ...(memory.later ?? []).filter(isShown).map((m) => line(m.why === "part" ? "superseded in part by" : "said later", m)),
  ];
}

function line(words, other) {
  return el("p", { class: "why" }, `${words}: `, el("a", { href: `#/memory/${other.memory_id}`, text: other.text }),
    ` (${other.observed_at ? day(other.observed_at) : "undated"})`);
}
