// A typed client of the service: `node client.js ADDRESS TOKEN` searches, remembers and reads an error.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const [, , baseUrl, token] = process.argv;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });
const turns: components["schemas"]["Message"][] = [{ role: "user", content: "I like work." }];

const search = await client.POST("/memories/search", { body: { q: "Where do I work?", turns } });
if (!search.data) throw new Error(search.error.detail);
const best = search.data.memories[0];

const sent = await client.POST("/memory", {
  body: { turns: [{ role: "user", content: [{ type: "text", text: "My cup is white." }], name: "Ann" }], collection: "chats" },
});
if (!sent.data) throw new Error(sent.error.detail);

const missing = await client.GET("/memory/{memory_id}", { params: { path: { memory_id: "none" } } });

console.log(
  JSON.stringify({
    found: best?.text.includes("Heron"),
    role: search.data.message.role,
    state: sent.data.state,
    problem: missing.error?.status,
  }),
);
