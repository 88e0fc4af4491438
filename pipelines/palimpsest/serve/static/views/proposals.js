import { api } from "../api.js";
import { action, announce, day, el, fill, put } from "../dom.js";

const STATES = { open: "open", confirmed: "confirmed", applied: "applied", rejected: "rejected" };

/** What consolidation proposes of the caller's memories, to confirm, reject or take back. */
export async function proposals(main, { caller, query }) {
  const state = query.get("state") in STATES ? query.get("state") : "open";
  const offset = Number(query.get("offset") ?? 0) || 0;
  const found = await api.proposals(state, offset);
  const mayWrite = caller.permissions.includes("write");
  const list = el("ol", { class: "results" }, byPair(found.proposals).map((same) => shown(same, mayWrite)));
  put(main,
    el("h2", { text: "Proposals" }),
    el("nav", { class: "row", "aria-label": "States" }, Object.keys(STATES).map((s) =>
      el("a", { href: `#/proposals?state=${s}`, "aria-current": s === state ? "page" : null, text: s }))),
    el("p", { text: found.total ? `${found.total} ${state}` : `None is ${state}.` }),
    list,
    found.next_offset === null ? null
      : el("a", { href: `#/proposals?state=${state}&offset=${found.next_offset}`, text: "more" }));
}

/** Groups proposals of one kind about the same memories: a pair may be proposed from each side, and is decided once. */
function byPair(proposals) {
  const groups = new Map();
  for (const proposal of proposals) {
    const { kind, memories, names } = proposal;
    const key = JSON.stringify([kind, memories.map((m) => m.memory_id).sort(), [...names].sort()]);
    groups.set(key, [...(groups.get(key) ?? []), proposal]);
  }
  return [...groups.values()];
}

function shown(same, mayWrite) {
  const [proposal] = same;
  const item = el("li", { class: "card" });
  const name = `keep-${proposal.proposal_id}`;
  const needsSide = proposal.state === "open" && proposal.kind === "contradiction" && proposal.why !== "conditional";
  const memories = proposal.memories.map((m) => el("li", {},
    needsSide ? el("input", { type: "radio", name, value: m.memory_id, checked: m.memory_id === proposal.keep,
      "aria-label": `keep: ${m.text.slice(0, 60)}` }) : null,
    " ", el("a", { href: `#/memory/${m.memory_id}`, text: m.text }), el("span", { class: "meta", text: ` ${day(m.observed_at)}` })));
  const decide = async (verb, body) => {
    let done = proposal;
    for (const { proposal_id: id } of same) done = await api.decide(id, verb, body);
    announce(`The proposal is ${done.state}.`);
    fill(item, el("p", {}, el("strong", { text: done.state }), ` ${proposal.description}`));
  };
  const confirm = () => {
    const kept = item.querySelector(`input[name="${name}"]:checked`)?.value ?? "";
    if (needsSide && !kept) throw new Error("Choose the memory that stays.");
    return decide("confirm", needsSide ? { keep: kept } : {});
  };
  const buttons = proposal.state === "open"
    ? [action("Confirm", confirm), action("Reject", () => decide("reject"))]
    : [action("Undo", () => decide("undo"))];
  return fill(item,
    el("p", {}, el("strong", { text: `${proposal.kind}, ${proposal.why}` }), ` (${Math.round(100 * proposal.confidence)} % sure)`),
    same.map((p) => el("p", { text: p.description })),
    needsSide ? el("p", { class: "meta", text: "Which one stays?" }) : null,
    el("ul", {}, memories),
    mayWrite ? el("div", { class: "row" }, buttons) : null);
}
