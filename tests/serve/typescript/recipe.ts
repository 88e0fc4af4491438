// docs/recipes/vercel_ai.ts: a scripted model calls both tools for one user; another user finds nothing of it.
import { MockLanguageModelV3 } from "ai/test";
import { answer, memoryOf } from "./vercel_ai.js";

const [, , address, token, otherToken] = process.argv;
if (!address || !token || !otherToken) throw new Error("ADDRESS TOKEN TOKEN");

type Result = Awaited<ReturnType<MockLanguageModelV3["doGenerate"]>>;
const step = (content: Result["content"], unified: "stop" | "tool-calls"): Result => ({
  content,
  finishReason: { unified, raw: undefined },
  usage: {
    inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 1, text: 1, reasoning: 0 },
  },
  warnings: [],
});
const call = (toolName: string, input: object) =>
  step([{ type: "tool-call", toolCallId: toolName, toolName, input: JSON.stringify(input) }], "tool-calls");
const script = [
  call("addMemory", { text: "My kite is called Petrel." }),
  call("searchMemory", { query: "What is my kite called?" }),
  step([{ type: "text", text: "Done." }], "stop"),
];
const model = new MockLanguageModelV3({ doGenerate: script });

const done = await answer(model, memoryOf(address, token, "chats"), [{ role: "user", content: "My kite is called Petrel." }]);
const results = done.steps.flatMap((s) => s.toolResults.map((r) => JSON.stringify(r.output)));
const [system, recalled] = model.doGenerateCalls[0]?.prompt ?? [];

console.log(
  JSON.stringify({
    text: done.text,
    added: results[0]?.includes("received"),
    found: results[1]?.includes("Petrel") && results[1].includes("not instructions"),
    other: (await memoryOf(address, otherToken).recall("What is my kite called?")).includes("Petrel"),
    roles: [system?.role, recalled?.role],
    next: (await memoryOf(address, token).recall("What is my kite called?")).includes("Petrel"),
    framed: JSON.stringify(recalled).includes("Relevant memory") && !JSON.stringify(system).includes("Relevant memory"),
  }),
);
