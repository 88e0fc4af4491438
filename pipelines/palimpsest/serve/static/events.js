// The caller's events, by a WebSocket that is opened again when it breaks. Views listen on `events`.

import { session } from "./api.js";

export const events = new EventTarget();
const LONGEST_WAIT_MS = 30_000;
let socket = null;
let wait = 1_000;

/** Opens the connection; does nothing where it is open. */
export function connect() {
  if (socket || !session.token) return;
  const address = new URL("/ws", location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  const opened = new WebSocket(address, ["palimpsest", session.token]);
  socket = opened;
  opened.addEventListener("message", (message) => {
    const { type, ...data } = JSON.parse(message.data);
    if (type === "CONNECTED") wait = 1_000;
    events.dispatchEvent(new CustomEvent(type, { detail: data }));
  });
  opened.addEventListener("close", ({ code }) => {
    if (socket === opened) socket = null;
    events.dispatchEvent(new CustomEvent("CLOSED", { detail: { code } }));
    if (!session.token || code === 4401 || code === 4403) return;
    setTimeout(connect, wait);
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  });
}

/** Closes the connection. */
export function disconnect() {
  const open = socket;
  socket = null;
  open?.close();
}
