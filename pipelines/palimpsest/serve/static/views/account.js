import { api } from "../api.js";
import { action, announce, el, field, put } from "../dom.js";
import { events } from "../events.js";

/** Who the caller is, how the service is, signing out, and deleting everything. */
export async function account(main, { signOut, reload }) {
  const [caller, ready, open] = await Promise.all([
    reload(),
    api.ready().then((r) => `ready, build ${r.build_id}`, (error) => error.message),
    api.proposals("open", 0).then((p) => p.total, () => "unknown"),
  ]);
  const live = el("dd", { text: "connected" });
  const rows = [
    ["User", caller.user],
    ["May", caller.permissions.join(", ")],
    ["Projects", caller.projects.join(", ") || "none"],
    ["Collections", caller.collections.join(", ") || "none"],
    ["Memories", caller.memories.toLocaleString()],
    ["Open proposals", String(open)],
    ["Token valid until", caller.expires_at ? new Date(caller.expires_at).toLocaleString() : "no end"],
    ["Service", ready],
  ];
  put(main, el("h2", { text: "Account" }),
    el("section", { class: "card" },
      el("dl", {}, rows.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))),
        el("div", {}, el("dt", { text: "Events" }), live)),
      action("Sign out", signOut)),
    caller.permissions.includes("delete") ? remover(caller) : null);
  const closed = () => { live.textContent = "not connected, trying again"; };
  const opened = () => { live.textContent = "connected"; };
  events.addEventListener("CLOSED", closed);
  events.addEventListener("CONNECTED", opened);
  return () => {
    events.removeEventListener("CLOSED", closed);
    events.removeEventListener("CONNECTED", opened);
  };
}

function remover(caller) {
  const name = el("input", { type: "text", autocomplete: "off" });
  return el("details", { class: "card danger" }, el("summary", { text: "Delete everything" }),
    el("p", { text: "All memories of this user go, from every build and copy, and cannot be brought back." }),
    field("User name, to confirm", name),
    action("Delete everything for good", async () => {
      if (name.value !== caller.user) throw new Error("Write the user name to confirm.");
      const begun = await api.removeAll();
      announce(`Delete begun: operation ${begun.operation_id.slice(0, 8)}. It ends with a proof.`);
    }));
}
