// Requests of the service. The token stays in this tab: it is gone when the tab is closed.

const KEY = "palimpsest-token";

/** An error that the service answered. */
export class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const session = {
  get token() {
    return sessionStorage.getItem(KEY) ?? "";
  },
  set token(value) {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  },
};

async function send(method, path, { query = {}, body, headers = {} } = {}) {
  const given = [...(query instanceof URLSearchParams ? query : Object.entries(query))].filter(([, v]) => v !== "" && v !== null && v !== undefined);
  const address = given.length ? `${path}?${new URLSearchParams(given)}` : path;
  const isForm = body instanceof FormData;
  const sent = {
    method,
    headers: { Authorization: `Bearer ${session.token}`, ...headers },
    body: body === undefined || isForm ? body : JSON.stringify(body),
  };
  if (body !== undefined && !isForm) sent.headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(address, sent);
  } catch {
    throw new ApiError(0, "The service cannot be reached.");
  }
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    if (answer.status === 401) window.dispatchEvent(new CustomEvent("signed-out"));
    throw new ApiError(answer.status, content.detail ?? `The service answered ${answer.status}.`);
  }
  return content;
}

const part = encodeURIComponent;

export const api = {
  me: () => send("GET", "/users/me"),
  ready: () => send("GET", "/ready"),
  openapi: () => send("GET", "/openapi.json"),
  search: (query) => send("GET", "/search", { query }),
  builds: () => send("GET", "/builds"),
  compare: (query) => send("GET", "/search/compare", { query }),
  memory: (id) => send("GET", `/memory/${part(id)}`),
  source: (id) => send("GET", `/memory/${part(id)}/source`),
  history: (id) => send("GET", `/memory/${part(id)}/history`),
  edit: (id, text) => send("PUT", `/memory/${part(id)}`, { body: { text } }),
  undo: (id) => send("POST", `/memory/${part(id)}/undo`),
  remove: (id) => send("DELETE", `/memory/${part(id)}`),
  removeAll: () => send("DELETE", "/users/me"),
  add: (body, key) => send("POST", "/memory", { body, headers: { "Idempotency-Key": key } }),
  operation: (id) => send("GET", `/operations/${part(id)}`),
  outline: () => send("GET", "/graph/outline"),
  nodes: (name) => send("GET", "/api/v1/knowledge/nodes", { query: { name } }),
  around: (name) => send("GET", "/api/v1/knowledge/graph", { query: { name, depth: 1 } }),
  proposals: (state, offset) => send("GET", "/proposals", { query: { state, offset } }),
  decide: (id, verb, body) => send("POST", `/proposals/${part(id)}/${verb}`, { body }),
};
