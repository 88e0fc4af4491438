"""Faults put into the code path, one at a time: each changes what a search or an index does, none what is asked."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import sleep
from typing import Any

import numpy as np
import polars as pl

from palimpsest.query import embed_query, reader
from palimpsest.query import search as api
from palimpsest.query.backends import duckdb_scope
from palimpsest.query.context import pack
from palimpsest.query.request.types import Scope

Patch = Any  # pytest.MonkeyPatch
SEED = 7


@dataclass(frozen=True)
class Mutation:
    """`path` patches the query path; `index` changes what the index is made of; `few` is how many questions to ask."""

    name: str
    path: Callable[[Patch], None] = lambda patch: None
    index: Callable[[dict, Callable], tuple[dict, Callable]] | None = None
    few: int | None = None
    expected: str = ""


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


def quarter_the_budget(patch: Patch) -> None:
    searching(
        patch,
        lambda search, text, scope, f, reader: search(text, scope, f | {"budget_tokens": f["budget_tokens"] // 4}),
    )


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
    patch.setattr(api, "query_terms", lambda text: [])


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


def move_citations(patch: Patch) -> None:
    source = pack._source
    patch.setattr(pack, "_source", lambda m, *a: source(replace(m, char_start=m.char_start + 1), *a))


def cite_nothing(patch: Patch) -> None:
    real = api.pack
    patch.setattr(api, "pack", lambda *a: (p := real(*a)) and replace(p, text=p.text.replace("\n- ", "\n- and ")))


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


def retire_what_is_true(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """A tenth of the memories that are latest is retired."""
    chosen = sorted(tables["versions"].filter("is_latest")["memory_id"])[::10]
    retired = pl.col("memory_id").is_in(chosen)
    versions = tables["versions"].with_columns(is_latest=pl.col("is_latest") & ~retired)
    return tables | {"versions": versions}, lookup


MUTATIONS: tuple[Mutation, ...] = (
    Mutation("embed the wrong text", index=vectors_of_the_next_text),
    Mutation("embed another question", embed_another_question),
    Mutation("turn the question's vector round", turn_the_vector_round),
    Mutation("drop is_latest in the query", drop_is_latest, expected="stale@5 rose"),
    Mutation("drop is_latest in the index", index=all_latest, expected="stale@5 rose"),
    Mutation("retire what is still true", index=retire_what_is_true),
    Mutation("ignore scope", ignore_scope, expected="leak: "),
    Mutation("swap two users", swap_two_users, expected="leak: "),
    Mutation("shuffle ranks", shuffle_ranks),
    Mutation("halve k", halve_k, expected="filled@10 fell"),
    Mutation("cut BM25", cut_words, expected="words_signal fell"),
    Mutation("index another memory's words", index=words_of_the_next_memory),
    Mutation("lose every fifth memory", index=lose_every_fifth),
    Mutation("ignore the day that is asked about", ignore_the_day),
    Mutation("quarter the budget", quarter_the_budget, expected="packed_recall fell"),
    Mutation("move every citation by a character", move_citations, expected="invariant 8 (citations)"),
    Mutation("put words into cited lines", cite_nothing, expected="invariant 8 (citations)"),
    Mutation("sleep 500 ms", sleep_half_a_second, few=12, expected="latency: p95"),
)
