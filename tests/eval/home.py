"""A small build made by hand: two users of one collection, one fact updated; and a reader with given answers."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import polars as pl

from palimpsest.core.ids import text_hash
from palimpsest.store.tables import SCHEMAS, conform, empty

COLLECTION = "notes"
DOCUMENTS = {
    "d1": ("ana", "plan.md", None, "The launch is on Monday.\nThe budget is ten thousand euros.\n", "2024-01-01"),
    "d2": ("ana", "news.md", None, "The launch moved\n  to Friday. Bring cake.\n", "2024-02-01"),
    "d3": ("ben", "chat.jsonl", "s1", "I keep bees.\nThe launch is on Monday.\n", "2024-01-05"),
}
# id -> document, start, end
SPANS = {
    "m1": ("d1", 0, 24), "m2": ("d1", 25, 58), "m3": ("d2", 0, 30), "m4": ("d2", 31, 42), "m5": ("d3", 0, 12),
    "m6": ("d3", 13, 37),
}  # fmt: skip
UPDATED = {"m1": "m3"}


def rows(table, *items):
    return conform(table, pl.DataFrame(list(items), infer_schema_length=None)) if items else empty(table)


def at(day):
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


def tables():
    """All tables of the build; every invariant holds."""
    scope = {d: {"collection": COLLECTION, "user_id": user} for d, (user, *_) in DOCUMENTS.items()}
    documents, texts, chunks, memories, inputs, versions = [], [], [], [], [], []
    for d, (_, uri, session, text, day) in DOCUMENTS.items():
        documents.append(
            {
                "document_id": d, **scope[d], "uri": uri, "session_id": session, "source_time": at(day), "seq": 1,
                "is_current": True,
            },
        )  # fmt: skip
        texts.append({"document_id": d, "text": text})
    for ordinal, (m, (d, start, end)) in enumerate(SPANS.items()):
        span = {"document_id": d, **scope[d], "text": DOCUMENTS[d][3][start:end], "char_start": start, "char_end": end}
        span["ordinal"] = ordinal
        chunks.append({"chunk_id": f"c{m}", **span})
        memories.append({"memory_id": m, **span, "chunk_ids": [f"c{m}"], "observed_at": at(DOCUMENTS[d][4])})
        inputs.append(
            {"memory_id": m, "kind": "memory", "ordinal": 0, "text": span["text"], "text_hash": text_hash(span["text"])}
        )
        versions.append(
            {
                "memory_id": m,
                **scope[d],
                "is_latest": m not in UPDATED,
                "superseded_by": UPDATED.get(m),
                "valid_from": at(DOCUMENTS[d][4]),
            }
            | ({"valid_until": at("2024-02-01")} if m in UPDATED else {})
        )
    ana = scope["d1"]
    pair = {"newer_id": "m3", "older_id": "m1"}
    labelled = {"confidence": 0.9, "labeler": "by hand"}
    made = {name: empty(name) for name in SCHEMAS}
    return made | {
        "documents": rows("documents", *documents),
        "document_texts": rows("document_texts", *texts),
        "chunks": rows("chunks", *chunks),
        "memories": rows("memories", *memories),
        "embed_inputs": rows("embed_inputs", *inputs),
        "versions": rows("versions", *versions),
        "entities": rows("entities", {"entity_id": "e1", **ana, "name": "launch", "type": "event", "aliases": []}),
        "mentions": rows(
            "mentions",
            {"memory_id": "m1", "entity_id": "e1", **ana, "char_start": 4, "char_end": 10},
            {"memory_id": "m3", "entity_id": "e1", **ana, "char_start": None, "char_end": None},
        ),
        "topics": rows("topics", {"topic_id": "t1", **ana, "label": "launch", "size": 2}),
        "topic_memories": rows("topic_memories", {"topic_id": "t1", "memory_id": "m3", **ana, "relevance": 1.0}),
        "candidate_pairs": rows("candidate_pairs", {**pair, **ana, "why": "words", "score": 0.9}),
        "relations": rows(
            "relations",
            {"relation_id": "r1", **ana, **pair, "label": "UPDATE", **labelled},
            {"relation_id": "r2", **ana, "newer_id": "m4", "older_id": "m2", "label": "EXTEND", **labelled},
        ),
    }


@dataclass
class Found:
    memory_id: str
    is_latest: bool = True
    score: float = 0.0
    uri: str = ""
    text: str = "words"
    char_start: int = 0
    relevance: float = 1.0


@dataclass
class Answer:
    memories: list
    packed_ids: tuple = ()
    beside: tuple = ()
    context: str = ""
    timings: dict = field(default_factory=dict)
    folded: dict = field(default_factory=dict)
    quotes: tuple = ()
    context_tokens: int = 0
    returned_ids: frozenset = frozenset()

    def context_with(self, sources):
        return self.context


@dataclass
class FakeReader:
    """Answers each question with the ids given for it; all are packed unless `packed` says otherwise."""

    answers: dict
    packed: dict = field(default_factory=dict)
    queries: list = field(default_factory=list)

    def search(self, text, scope, **filters):
        self.queries.append((text, tuple(scope), filters))
        found = [f if isinstance(f, Found) else Found(f, f not in UPDATED) for f in self.answers.get(text, ())]
        found = found[: filters["k"]]
        return Answer(found, tuple(self.packed.get(text, [f.memory_id for f in found])))


def ticking(step_s):
    """A clock that says each search took `step_s` seconds."""
    now = [0.0]

    def clock():
        now[0] += step_s
        return now[0]

    return clock
