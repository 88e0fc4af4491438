"""Changes of the code path, one at a time: each changes what a search or an index does, none a question.

Most are faults, which must close the gate; `HARMLESS` must not. `measure_gate` counts both.
"""

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.query import embed_query, reader
from palimpsest.query import search as api
from palimpsest.query.backends import duckdb_scope
from palimpsest.query.context import pack
from palimpsest.query.context.lines import Citations
from palimpsest.query.request.types import Scope
from palimpsest.query.scope import served_scope
from palimpsest_eval.golden.questions import Question

Patch = Any  # pytest.MonkeyPatch
SEED = 7
ROOT = Path(__file__).resolve().parents[2]
COLLECTIONS = ("household", "diary", "atlas", "lexicon")  # of the demo


@dataclass(frozen=True)
class Mutation:
    """A change of the code path.

    `path` patches the query path; `index` changes what the index is made of and `weights` its ranking; `few` is how
    many questions to ask, and `questions` changes which. `development` is the half that the gate's effects were chosen
    on.
    """

    name: str
    path: Callable[[Patch], None] = lambda patch: None
    index: Callable[[dict, Callable], tuple[dict, Callable]] | None = None
    few: int | None = None
    expected: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    questions: Callable[[Sequence[Question]], Sequence[Question]] | None = None
    development: bool = True


def searching(patch: Patch, change: Callable[..., Any]) -> None:
    """Wraps Reader.search: `change(search, text, scope, filters)` gives the answer."""
    search = reader.Reader.search
    patch.setattr(
        reader.Reader,
        "search",
        lambda self, text, scope, **f: change(
            lambda text, scope, f: search(self, text, scope, **f), text, scope, f, self
        ),
    )


def ignore_scope(patch: Patch) -> None:
    searching(
        patch,
        lambda search, text, scope, f, reader: search(
            text, [s for s in reader.scopes() if s.collection == scope[0]], f
        ),
    )


def swap_two_users(patch: Patch) -> None:
    def change(search, text, scope, f, reader):
        users = [s.user_id for s in reader.scopes() if s.collection == scope[0]]
        if len(users) < 2:
            return search(text, scope, f)
        swapped = {users[0]: users[1], users[1]: users[0]}
        return search(text, Scope(scope[0], swapped.get(scope[1], scope[1])), f)

    searching(patch, change)


def halve_k(patch: Patch) -> None:
    searching(patch, lambda search, text, scope, f, reader: search(text, scope, f | {"k": f["k"] // 2}))


def ignore_the_day(patch: Patch) -> None:
    searching(
        patch, lambda search, text, scope, f, reader: search(text, scope, {k: v for k, v in f.items() if k != "as_of"})
    )


def change_the_budget(patch: Patch, factor: float) -> None:
    searching(
        patch,
        lambda search, text, scope, f, reader: search(
            text, scope, f | {"budget_tokens": int(f["budget_tokens"] * factor)}
        ),
    )


def cut_the_budget(patch: Patch) -> None:
    """To 75 tokens: contexts have 170 to 250."""
    change_the_budget(patch, 1 / 16)


def read_the_first_five_words(patch: Patch) -> None:
    searching(patch, lambda search, text, scope, f, reader: search(" ".join(text.split()[:5]), scope, f))


def turn_round_the_first_five(patch: Patch) -> None:
    def change(search, text, scope, f, reader):
        found = search(text, scope, f)
        return replace(found, memories=[*found.memories[:5][::-1], *found.memories[5:]])

    searching(patch, change)


def pause_now_and_then(patch: Patch) -> None:
    """One search in 25 waits for 600 ms the first time, as for a disk or another process."""
    seen: set[str] = set()

    def change(search, text, scope, f, reader):
        if text not in seen and int(hashlib.blake2b(text.encode(), digest_size=2).hexdigest(), 16) % 25 == 0:
            sleep(0.6)
        seen.add(text)
        return search(text, scope, f)

    searching(patch, change)


def shuffle_ranks(patch: Patch) -> None:
    rank = api.rank

    def shuffled(*a, **k):
        found = rank(*a, **k)
        head = found[:20]
        scores = [c.score for c in head]
        random.Random(f"{SEED}{[c.memory_id for c in head]}").shuffle(scores)
        return [replace(c, score=s) for c, s in zip(head, scores, strict=True)] + found[20:]

    patch.setattr(api, "rank", shuffled)


def cut_words(patch: Patch) -> None:
    patch.setattr(served_scope, "query_terms", lambda *a: [])


class OtherEmbedder:
    """Embeds by another function of the text than the build did."""

    def __init__(self, embedder: Any, embed: Callable[[Any, str], np.ndarray]):
        self._embedder, self._embed = embedder, embed

    def embed(self, text: str) -> np.ndarray:
        return self._embed(self._embedder, text)


def embedding(patch: Patch, embed: Callable[[Any, str], np.ndarray]) -> None:
    real = embed_query.query_embedder
    patch.setattr(embed_query, "query_embedder", lambda: OtherEmbedder(real(), embed))


def embed_another_question(patch: Patch) -> None:
    embedding(patch, lambda e, text: e.embed("What is the weather like today?"))


def turn_the_vector_round(patch: Patch) -> None:
    embedding(patch, lambda e, text: -e.embed(text))


def sleep_half_a_second(patch: Patch) -> None:
    def slow(e: Any, text: str) -> np.ndarray:
        sleep(0.5)
        return e.embed(text)

    embedding(patch, slow)


def drop_is_latest(patch: Patch) -> None:
    """Every search finds what was retired too."""
    load = duckdb_scope.DuckDBScope._load_allowed

    def all_versions(self, filters):
        return load(self, replace(filters, history=filters.as_of is None))

    patch.setattr(duckdb_scope.DuckDBScope, "_load_allowed", all_versions)


def keep_the_machine_busy(patch: Patch) -> None:
    """Twice as many processes as processors compute while the questions are answered."""
    count = 2 * (os.cpu_count() or 1)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    undo = patch.undo

    def stop() -> None:
        for process in busy:
            process.kill()
            process.wait()
        undo()

    patch.undo = stop


def move_citations(patch: Patch) -> None:
    place = pack._place

    def moved(memory, *a, **k):
        return place(
            memory if memory.char_start is None else replace(memory, char_start=memory.char_start + 1), *a, **k
        )

    patch.setattr(pack, "_place", moved)


def cite_nothing(patch: Patch) -> None:
    quote = Citations.quote
    patch.setattr(Citations, "quote", lambda self, text: f"and {quote(self, text)}")


def vectors_of_the_next_text(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """What is embedded for each memory, and for each sentence, is another one's text."""

    def shifted(hashes):
        known = sorted({h for n in ("embed_inputs", "context_inputs") for h in tables[n]["text_hash"].drop_nulls()})
        after = dict(zip(known, known[1:] + known[:1], strict=True))
        return lookup([after[h] for h in hashes])

    return tables, shifted


def words_of_the_next_memory(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """Words search sees another memory's words."""
    memories = tables["memories"].with_columns(pl.col("search_text").shift(1).fill_null("nothing"))
    return tables | {"memories": memories}, lookup


def all_latest(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """The index says of every memory that it is latest."""
    return tables | {"versions": tables["versions"].with_columns(is_latest=pl.lit(True))}, lookup


def lose_every_fifth(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """A fifth of the memories is not indexed."""
    keep = pl.col("memory_id").is_in(sorted(tables["memories"]["memory_id"])[::5]).not_()
    gone = {n: tables[n].filter(keep) for n in ("memories", "embed_inputs", "versions", "mentions", "topic_memories")}
    kept = set(gone["memories"]["memory_id"])
    ends = pl.col("newer_id").is_in(kept) & pl.col("older_id").is_in(kept)
    return tables | gone | {"relations": tables["relations"].filter(ends)}, lookup


def retire_what_is_true(tables: dict, lookup: Callable, every: int = 10) -> tuple[dict, Callable]:
    """A part of the memories that are latest is retired, a tenth by default."""
    chosen = sorted(tables["versions"].filter("is_latest")["memory_id"])[::every]
    retired = pl.col("memory_id").is_in(chosen)
    versions = tables["versions"].with_columns(is_latest=pl.col("is_latest") & ~retired)
    return tables | {"versions": versions}, lookup


def retire_a_twentieth(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    return retire_what_is_true(tables, lookup, 20)


def forget_that_half_was_retired(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    chosen = sorted(tables["versions"].filter(~pl.col("is_latest"))["memory_id"])[::2]
    latest = pl.col("is_latest") | pl.col("memory_id").is_in(chosen)
    return tables | {"versions": tables["versions"].with_columns(is_latest=latest)}, lookup


def without(tables: dict, memory_ids: Collection[str]) -> dict:
    """The tables without these memories and what is of them."""
    gone = pl.col("memory_id").is_in(sorted(memory_ids))
    of_memories = ("memories", "embed_inputs", "context_inputs", "versions", "mentions", "topic_memories")
    ends = pl.col("newer_id").is_in(sorted(memory_ids)) | pl.col("older_id").is_in(sorted(memory_ids))
    return tables | {n: tables[n].filter(~gone) for n in of_memories} | {"relations": tables["relations"].filter(~ends)}


def lose_a_document_in_ten(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    documents = sorted(tables["documents"]["document_id"])[::10]
    lost = tables["memories"].filter(pl.col("document_id").is_in(documents))["memory_id"]
    return without(tables, lost.to_list()), lookup


def copies_of(
    tables: dict, documents: Collection[str], scope: Sequence[str] | None, mark: str
) -> dict[str, pl.DataFrame]:
    """The rows of documents once more, in a scope, or in their own; the ids begin with a mark of two characters."""
    memories = tables["memories"].filter(pl.col("document_id").is_in(documents))["memory_id"].to_list()
    copies: dict[str, pl.DataFrame] = {}
    for name, key, ids in (
        *((n, "document_id", documents) for n in ("documents", "document_texts", "chunks", "notes")),
        *((n, "memory_id", memories) for n in ("memories", "embed_inputs", "context_inputs", "versions")),
    ):
        mine = tables[name].filter(pl.col(key).is_in(ids))
        stated = zip(SCOPE, scope, strict=True) if scope else ()
        place = [pl.lit(v, pl.String).alias(c) for c, v in stated if c in mine.columns]
        renamed = [c for c in ("document_id", "memory_id", "chunk_id", "superseded_by") if c in mine.columns]
        marked = [(pl.lit(mark) + pl.col(c).str.slice(2)).alias(c) for c in renamed]
        lists = [
            pl.col(c).list.eval(pl.lit(mark) + pl.element().str.slice(2)).alias(c)
            for c in ("chunk_ids",)
            if c in mine.columns
        ]
        copies[name] = mine.with_columns(*place, *marked, *lists)
    return copies


def with_copies(tables: dict, *added: Mapping[str, pl.DataFrame]) -> dict:
    """The tables with what `copies_of` gave."""
    return tables | {n: pl.concat([tables[n], *(copies[n] for copies in added)]) for copies in added for n in copies}


def add_foreign_documents(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """Each scope gets a tenth more memories, of documents of another collection: a corpus that grows."""
    scopes = tables["memories"].group_by(SCOPE).len().sort(SCOPE).rows()
    added: list[dict[str, pl.DataFrame]] = []
    for number, (*scope, count) in enumerate(scopes):
        others = tables["memories"].filter(pl.col("collection") != scope[0]).group_by("document_id").len()
        others = others.sort("document_id").gather_every(9, number)
        documents = others.filter(pl.col("len").cum_sum() <= max(count // 10, 1))["document_id"].to_list()
        added.append(copies_of(tables, documents, scope, f"{number:02}"))
    return with_copies(tables, *added), lookup


def forget_history_that_nobody_asks_about(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """Every second of the retired memories whose words no question quotes is gone."""
    quotes = [
        quote["quote"]
        for path in sorted((ROOT / "data/golden").rglob("*.jsonl"))
        if path.stem in set(tables["documents"]["collection"])
        for line in path.read_text(encoding="utf-8").splitlines()
        for quote in (*json.loads(line)["evidence"], *json.loads(line).get("stale", ()))
    ]
    quoted = {" ".join(q.split()) for q in quotes}
    retired = tables["versions"].filter(~pl.col("is_latest")).select("memory_id")
    texts = retired.join(tables["memories"], on="memory_id").select("memory_id", "text").sort("memory_id").rows()
    unquoted = [m for m, text in texts if not any(q in " ".join(text.split()) for q in quoted)]
    return without(tables, unquoted[::2]), lookup


def turn_the_tables_round(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    return {n: t.reverse() for n, t in tables.items()}, lookup


def disturb_vectors(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """Vectors of another runtime: each number is off by up to a two-hundredth of its size."""

    def disturbed(hashes):
        vectors = lookup(hashes)
        noise = np.random.default_rng(SEED).uniform(-0.005, 0.005, vectors.shape).astype(np.float32)
        changed = vectors * (1 + noise)
        return changed / np.linalg.norm(changed, axis=1, keepdims=True)

    return tables, disturbed


def round_vectors(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """Vectors as eight bits a number."""

    def rounded(hashes):
        vectors = lookup(hashes)
        scale = np.abs(vectors).max(axis=1, keepdims=True) / 127
        changed = (np.round(vectors / scale) * scale).astype(np.float32)
        return changed / np.linalg.norm(changed, axis=1, keepdims=True)

    return tables, rounded


MUTATIONS: tuple[Mutation, ...] = (
    Mutation("embed the wrong text", index=vectors_of_the_next_text),
    Mutation("embed another question", embed_another_question),
    Mutation("turn the question's vector round", turn_the_vector_round),
    Mutation("drop is_latest in the query", drop_is_latest, expected="stale@5 rose"),
    Mutation("drop is_latest in the index", index=all_latest, expected="stale@5 rose"),
    Mutation("retire what is still true", index=retire_what_is_true),
    Mutation("swap two users", swap_two_users, expected="leak: "),
    Mutation("halve k", halve_k, expected="filled@10 fell"),
    Mutation("lose every fifth memory", index=lose_every_fifth),
    Mutation("sleep 500 ms", sleep_half_a_second, few=12, expected="latency: p95"),
    Mutation("ignore scope", ignore_scope, expected="leak: ", development=False),
    Mutation("shuffle ranks", shuffle_ranks, development=False),
    Mutation("cut BM25", cut_words, expected="words_signal fell", development=False),
    Mutation("index another memory's words", index=words_of_the_next_memory, development=False),
    Mutation("ignore the day of as_of", ignore_the_day, development=False),
    Mutation("cut the budget", cut_the_budget, expected="packed_recall fell", development=False),
    Mutation(
        "move every citation by a character", move_citations, expected="invariant 8 (citations)", development=False
    ),
    Mutation("put words into cited lines", cite_nothing, expected="invariant 8 (citations)", development=False),
    Mutation("read the first five words", read_the_first_five_words, development=False),
    Mutation("turn round the first five", turn_round_the_first_five, expected="nDCG@10 fell", development=False),
    Mutation("lose a document in ten", index=lose_a_document_in_ten, development=False),
    Mutation(
        "forget that half was retired", index=forget_that_half_was_retired, expected="stale@5 rose", development=False
    ),
    Mutation("retire a twentieth", index=retire_a_twentieth, development=False),
)
HARMLESS: tuple[Mutation, ...] = (
    Mutation("index again"),
    Mutation("vectors of another runtime", index=disturb_vectors),
    Mutation("add foreign documents", index=add_foreign_documents),
    Mutation("a word weighs less", weights={"words": 0.75}),
    Mutation("pause now and then", pause_now_and_then),
    Mutation("half as much budget again", lambda patch: change_the_budget(patch, 1.5)),
    Mutation("vectors of eight bits", index=round_vectors, development=False),
    Mutation("forget history that nobody asks about", index=forget_history_that_nobody_asks_about, development=False),
    Mutation("turn the tables round", index=turn_the_tables_round, development=False),
    Mutation("a word weighs more", weights={"words": 0.85}, development=False),
    Mutation("a busy machine", keep_the_machine_busy, development=False),
)
"""What must not close the gate. A baseline of a build with a fault, and a build without it, must not either."""
