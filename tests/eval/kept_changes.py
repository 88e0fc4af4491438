"""Harms and harmless changes that nothing of the gate was chosen on: written from the query path alone, for the end.

A harm must close the gate in one of the demo's collections at least, a harmless change in none. Some touch every
question, some one in ten, as regressions do.
"""

import hashlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import cache

import numpy as np
import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.query import rerank
from palimpsest.query import search as api
from palimpsest.query.request.types import Memory, Scope
from palimpsest.query.result import SearchResult
from palimpsest_eval.golden.questions import Question, load_questions
from tests.eval.mutations import (
    COLLECTIONS,
    ROOT,
    SEED,
    Mutation,
    Patch,
    change_the_budget,
    copies_of,
    embedding,
    searching,
    with_copies,
    without,
)

NOTHING = {"memories": [], "lines": (), "packed_ids": (), "quotes": (), "beside": (), "returned_ids": frozenset()}


def one_in(text: str, n: int) -> bool:
    """Returns whether a question is among one in n, always the same ones."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") % n == 0


def answers(patch: Patch, change: Callable[[SearchResult, str], SearchResult]) -> None:
    """Changes the answers of the reader."""
    searching(patch, lambda search, text, scope, f, reader: change(search(text, scope, f), text))


# Harms.


def stop_reading(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """The newest tenth of each scope never arrived, so what it replaced is still served."""
    last = pl.col("observed_at").rank("ordinal", descending=True).over(SCOPE) <= pl.len().over(SCOPE) // 10
    lost = tables["memories"].filter(last)["memory_id"].to_list()
    kept = without(tables, lost)
    again = pl.col("superseded_by").is_in(lost)
    nothing = [pl.when(~again).then(c).alias(c) for c in ("superseded_by", "valid_until")]
    return kept | {"versions": kept["versions"].with_columns(*nothing, is_latest=pl.col("is_latest") | again)}, lookup


def lose_the_smallest_user(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """Of each collection of several users the one with the fewest memories is not indexed."""
    users = tables["memories"].group_by("collection", "user_id").len().sort("collection", "len", "user_id")
    users = users.filter(pl.len().over("collection") > 1).group_by("collection").first()
    lost = tables["memories"].join(users, on=["collection", "user_id"], how="semi")
    return without(tables, lost["memory_id"].to_list()), lookup


def find_nothing_for_signs(patch: Patch) -> None:
    """A question with a digit, a hyphen or an apostrophe finds nothing, as where a query is not escaped."""
    answers(patch, lambda found, text: replace(found, **NOTHING) if re.search(r"[-'\u2019\d]", text) else found)


def forget_all_history(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """What was replaced is deleted instead of retired."""
    return without(tables, tables["versions"].filter(~pl.col("is_latest"))["memory_id"].to_list()), lookup


def answer_as_of_later(patch: Patch) -> None:
    """A question about a past day is answered with what was known 90 days after it."""
    searching(
        patch,
        lambda search, text, scope, f, reader: search(
            text, scope, f | ({"as_of": f["as_of"] + timedelta(days=90)} if f.get("as_of") else {})
        ),
    )


def show_another_users_line(patch: Patch) -> None:
    """One context in ten ends with a line of another user."""

    def change(search, text, scope, f, reader):
        found = search(text, scope, f)
        other = next((s for s in reader.scopes() if s.collection == scope[0] and s.user_id != scope[1]), None)
        if other is None or not one_in(text, 10):
            return found
        line = next(
            (n for n in search(text, other, {k: v for k, v in f.items() if k != "project"}).lines if n.cites), None
        )
        if line is None:
            return found
        return replace(found, lines=(*found.lines, line), packed_ids=(*found.packed_ids, line.cites[-1]))

    searching(patch, change)


def pack_all_results(patch: Patch) -> None:
    """Contexts have all ten results, however unlikely: two or three times as long."""
    patch.setattr(api, "least_relevance", lambda best: 0.0)


def pack_from_the_second(patch: Patch) -> None:
    """Contexts are made without the best result."""
    pack = api.pack
    patch.setattr(api, "pack", lambda ranked, *a, **k: pack(ranked[1:], *a, **k))


def swap_two_citations(patch: Patch) -> None:
    """In one context in five the first two lines cite each other's source."""

    def swapped(found: SearchResult, text: str) -> SearchResult:
        if len(found.lines) < 2 or not one_in(text, 5):
            return found
        a, b, *rest = found.lines
        exchanged = replace(a, cites=b.cites, source=b.source), replace(b, cites=a.cites, source=a.source)
        return replace(found, lines=(*exchanged, *rest))

    answers(patch, swapped)


def cut_long_lines(patch: Patch) -> None:
    """Lines of contexts end after 60 characters, in the middle of a word."""
    answers(patch, lambda found, text: replace(found, lines=tuple(replace(n, text=n.text[:60]) for n in found.lines)))


def read_documents_twice(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """One document in three is in the index twice, under two ids."""
    documents = tables["memories"].select(*SCOPE, "document_id").drop_nulls().unique().sort(*SCOPE, "document_id")
    return with_copies(tables, copies_of(tables, documents["document_id"][::3].to_list(), None, "zz")), lookup


def be_sure_of_everything(patch: Patch) -> None:
    """No result has a relevance below one half: every question looks answerable."""
    answers(
        patch,
        lambda found, text: replace(
            found, memories=[replace(m, relevance=max(m.relevance, 0.5)) for m in found.memories]
        ),
    )


def compute_for_a_second(patch: Patch) -> None:
    """One search in ten computes for a second, each time."""

    def change(search, text, scope, f, reader):
        end = time.perf_counter() + one_in(text, 10)
        while time.perf_counter() < end:
            np.sort(np.arange(10_000)[::-1])
        return search(text, scope, f)

    searching(patch, change)


def mix_up_what_was_read(patch: Patch) -> None:
    """For one question in three the reader's scores are in another order at each search, as threads end."""
    read = rerank.AnswerReader.read

    def mixed(self, question, memories):
        odds = read(self, question, memories)
        return np.random.default_rng().permutation(odds) if one_in(question, 3) else odds

    patch.setattr(rerank.AnswerReader, "read", mixed)


def turn_updates_round(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """Of a memory and the one that replaced it, the older is served and the newer retired."""
    versions = tables["versions"]
    older = versions.filter(~pl.col("is_latest") & pl.col("superseded_by").is_in(versions["memory_id"].to_list()))
    by = older.sort("memory_id").unique("superseded_by", keep="first", maintain_order=True)
    by = by.select(memory_id="superseded_by", now="memory_id")
    was = pl.col("memory_id").is_in(older["memory_id"].to_list())
    turned = versions.join(by, on="memory_id", how="left", maintain_order="left").with_columns(
        is_latest=pl.when(was).then(True).otherwise(pl.col("is_latest") & pl.col("now").is_null()),
        superseded_by=pl.when(was).then(None).otherwise(pl.coalesce("now", "superseded_by")),
        valid_until=pl.when(was)
        .then(None)
        .otherwise(pl.when(pl.col("now").is_not_null()).then("valid_from").otherwise("valid_until")),
    )
    update = pl.col("label") == "UPDATE"
    ends = {a: pl.when(update).then(b).otherwise(a) for a, b in (("newer_id", "older_id"), ("older_id", "newer_id"))}
    relations = tables["relations"].with_columns(**ends)
    return tables | {"versions": turned.drop("now"), "relations": relations}, lookup


def fail_a_batch_of_vectors(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """A fifth of the texts has the vector of one and the same text."""
    known = sorted({h for n in ("embed_inputs", "context_inputs") for h in tables[n]["text_hash"].drop_nulls()})
    failed = set(known[::5])
    return tables, lambda hashes: lookup([known[0] if h in failed else h for h in hashes])


def index_ten_words(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """Words search sees the first ten words of each memory."""
    words = pl.col("search_text").str.extract(r"^\s*((?:\S+\s*){1,10})").fill_null("nothing")
    return tables | {"memories": tables["memories"].with_columns(search_text=words)}, lookup


def scrub_the_question(patch: Patch) -> None:
    """Names and numbers are cut out of questions before the search, as if they were personal data."""
    named = re.compile(r"(?<!^)\b(?:[A-Z]\w+|\d\S*)")
    searching(patch, lambda search, text, scope, f, reader: search(named.sub("", text), scope, f))


def begin_with_the_second(patch: Patch) -> None:
    """Results begin with the second best, as a page that is counted from one."""

    def change(search, text, scope, f, reader):
        found = search(text, scope, f | {"k": f["k"] + 1})
        return replace(found, memories=found.memories[1:])

    searching(patch, change)


def stay_in_one_document(patch: Patch) -> None:
    """Results are only of the document of the best one."""

    def only_first(found: SearchResult, text: str) -> SearchResult:
        return replace(found, memories=[m for m in found.memories if m.document_id == found.memories[0].document_id])

    answers(patch, only_first)


KEPT_HARMS: tuple[Mutation, ...] = (
    Mutation("stop reading new memories", index=stop_reading),
    Mutation("lose the smallest user", index=lose_the_smallest_user),
    Mutation("find nothing for digits, hyphens and apostrophes", find_nothing_for_signs),
    Mutation("forget all history", index=forget_all_history),
    Mutation("answer as of a quarter later", answer_as_of_later),
    Mutation("another user's line in one context of ten", show_another_users_line),
    Mutation("pack all results", pack_all_results),
    Mutation("pack from the second result", pack_from_the_second),
    Mutation("swap two citations in one context of five", swap_two_citations),
    Mutation("cut long lines", cut_long_lines),
    Mutation("read one document in three twice", index=read_documents_twice),
    Mutation("be sure of everything", be_sure_of_everything),
    Mutation("one search in ten computes for a second", compute_for_a_second, few=80),
    Mutation("mix up what was read", mix_up_what_was_read),
    Mutation("turn updates round", index=turn_updates_round),
    Mutation("fail a batch of vectors", index=fail_a_batch_of_vectors),
    Mutation("index ten words", index=index_ten_words),
    Mutation("scrub names and numbers from questions", scrub_the_question),
    Mutation("results begin with the second", begin_with_the_second),
    Mutation("stay in one document", stay_in_one_document),
)


# Harmless changes, and better ones: those know the evidence of the golden questions.


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


@cache
def golden_evidence() -> dict[str, tuple[str, ...]]:
    """Returns the quotes of the evidence of each golden question, by its text; none where it has no answer."""
    found: dict[str, tuple[str, ...]] = {}
    for collection in COLLECTIONS:
        for question in load_questions(ROOT / "data", collection) or []:
            quotes = (_fold(e.quote) for e in question.evidence)
            found[question.question] = (*found.get(question.question, ()), *quotes)
    return found


def is_evidence(text: str, memory: Memory) -> bool:
    """Returns whether a memory has a quote of the evidence of a question."""
    folded = _fold(memory.text)
    return any(quote in folded for quote in golden_evidence().get(text, ()))


def shuffle_the_tables(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """The rows of every table are in a random order."""
    return {n: t.sample(fraction=1, shuffle=True, seed=SEED) for n, t in tables.items()}, lookup


def read_nine_candidates(patch: Patch) -> None:
    """The reader of answers reads one candidate more."""
    patch.setattr(rerank, "READ", rerank.READ + 1)


@cache
def rotation(dimensions: int) -> np.ndarray:
    """Returns a rotation of a space, shape (dimensions, dimensions)."""
    turned, _ = np.linalg.qr(np.random.default_rng(SEED).normal(size=(dimensions, dimensions)))
    return turned.astype(np.float32)


def rotate_vectors(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """The vectors of memories are in a space that is turned; cosines are the same."""

    def rotated(hashes):
        vectors = np.asarray(lookup(hashes), np.float32)
        return vectors @ rotation(vectors.shape[1])

    return tables, rotated


def rotate_the_question(patch: Patch) -> None:
    """The vectors of questions are turned as those of memories are."""
    embedding(patch, lambda e, text: np.ascontiguousarray(e.embed(text) @ rotation(len(e.embed(text)))))


def search_in_a_thread(patch: Patch) -> None:
    """Searches run in another thread than the caller's."""
    threads = ThreadPoolExecutor(1)
    searching(patch, lambda search, text, scope, f, reader: threads.submit(search, text, scope, f).result())


def add_white_space(patch: Patch) -> None:
    """Questions have white space around and between their words."""
    searching(patch, lambda search, text, scope, f, reader: search(f"  {text.replace(' ', '  ')} \n", scope, f))


def add_unrelated_text_twice(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """Each scope gets two documents of other collections, each of them twice."""
    added = []
    for number, scope in enumerate(tables["memories"].select(SCOPE).unique().sort(SCOPE).rows()):
        others = tables["memories"].filter(pl.col("collection") != scope[0])["document_id"].drop_nulls().unique()
        documents = others.sort().gather_every(len(others) // 2, number)[:2].to_list()
        added += [copies_of(tables, documents, scope, f"{mark}{number:x}") for mark in "yz"]
    return with_copies(tables, *added), lookup


def add_a_user(tables: dict, lookup: Callable) -> tuple[dict, Callable]:
    """Each collection gets a user who has the documents of another user too."""
    added = []
    for number, (collection,) in enumerate(tables["memories"].select("collection").unique().sort("collection").rows()):
        mine = tables["memories"].filter(pl.col("collection") == collection).sort("user_id")
        documents = mine.filter(pl.col("user_id") == mine["user_id"][0])["document_id"].drop_nulls().unique().to_list()
        added.append(copies_of(tables, documents, Scope(collection, "newcomer"), f"z{number:x}"))
    return with_copies(tables, *added), lookup


def leave_out_an_irrelevant_result(patch: Patch) -> None:
    """For half of the questions the first irrelevant result is left out, and the next ones move up."""

    def change(search, text, scope, f, reader):
        if not one_in(text, 2) or not golden_evidence().get(text):
            return search(text, scope, f)
        found = search(text, scope, f | {"k": f["k"] + 1})
        wrong = next((n for n, m in enumerate(found.memories) if not is_evidence(text, m)), f["k"])
        return replace(found, memories=[*found.memories[:wrong], *found.memories[wrong + 1 :]])

    searching(patch, change)


def move_evidence_up(patch: Patch) -> None:
    """For a third of the questions the first evidence among the results is the first result."""

    def moved(found: SearchResult, text: str) -> SearchResult:
        at = next((n for n, m in enumerate(found.memories) if is_evidence(text, m)), None)
        if at is None or not one_in(text, 3):
            return found
        return replace(found, memories=[found.memories[at], *found.memories[:at], *found.memories[at + 1 :]])

    answers(patch, moved)


def pack_evidence_alone(patch: Patch) -> None:
    """Half of the contexts that have evidence have it alone, with what disputes it."""

    def packed(found: SearchResult, text: str) -> SearchResult:
        right = {i for i, m in found.cited.items() if is_evidence(text, m)}
        right |= {n.disputed_by for n in found.lines if n.cites and n.cites[-1] in right}
        lines = tuple(n for n in found.lines if n.cites and n.cites[-1] in right)
        if not lines or not one_in(text, 2):
            return found
        return replace(
            found,
            lines=lines,
            packed_ids=tuple(i for i in found.packed_ids if i in right),
            quotes=tuple(q for q in found.quotes if q.memory_id in right),
            beside=tuple(m for m in found.beside if m.memory_id in right),
        )

    answers(patch, packed)


def find_evidence_deeper(patch: Patch) -> None:
    """Where no result is evidence, the best evidence of the first forty is the fifth result."""

    def change(search, text, scope, f, reader):
        found = search(text, scope, f)
        if not golden_evidence().get(text) or any(is_evidence(text, m) for m in found.memories):
            return found
        deeper = next((m for m in search(text, scope, f | {"k": 40}).memories if is_evidence(text, m)), None)
        if deeper is None:
            return found
        return replace(found, memories=[*found.memories[:4], deeper, *found.memories[4 : f["k"] - 1]])

    searching(patch, change)


def doubt_what_has_no_answer(patch: Patch) -> None:
    """For half of the questions without an answer, results are a fifth as likely."""

    def doubted(found: SearchResult, text: str) -> SearchResult:
        if golden_evidence().get(text) or not one_in(text, 2):
            return found
        return replace(found, memories=[replace(m, relevance=m.relevance / 5) for m in found.memories])

    answers(patch, doubted)


def know_the_vectors(patch: Patch) -> None:
    """The vectors of questions are there before the search: it is faster."""
    known: dict[str, np.ndarray] = {}

    def embed(e, text):
        if not known:
            known.update({question: e.embed(question) for question in golden_evidence()})
        return known[text] if text in known else e.embed(text)

    embedding(patch, embed)


def begin_cold(patch: Patch) -> None:
    """The first three searches take one and a half seconds, as of a cold disk."""
    seen: list[str] = []

    def change(search, text, scope, f, reader):
        if len(seen) < 3:
            time.sleep(1.5)
        seen.append(text)
        return search(text, scope, f)

    searching(patch, change)


def start_other_work(patch: Patch) -> None:
    """At one question in fifteen other processes start and compute for a second."""
    count, undo = 2 * (os.cpu_count() or 1), patch.undo
    work = "import time\nend = time.time() + 1\nwhile time.time() < end: pass"
    started: list[subprocess.Popen] = []

    def change(search, text, scope, f, reader):
        if one_in(text, 15):
            started.extend(subprocess.Popen([sys.executable, "-c", work]) for _ in range(count))
        return search(text, scope, f)

    def wait() -> None:
        for process in started:
            process.wait()
        undo()

    searching(patch, change)
    patch.undo = wait


def disturb_scores(patch: Patch) -> None:
    """Scores are off by a millionth at most, as sums in another order are."""
    rank = api.rank

    def disturbed(*a, **k):
        found = rank(*a, **k)
        noise = np.random.default_rng(SEED).uniform(-1e-6, 1e-6, len(found))
        return [replace(c, score=c.score + float(x)) for c, x in zip(found, noise, strict=True)]

    patch.setattr(api, "rank", disturbed)


def without_every_tenth(questions: Sequence[Question]) -> Sequence[Question]:
    """One golden question in ten is removed."""
    return [q for n, q in enumerate(questions) if n % 10 != 4]


def with_harder_ones(questions: Sequence[Question]) -> Sequence[Question]:
    """One golden question in twelve is there a second time, in its last three words alone."""
    short = [
        q.model_copy(update={"id": f"{q.id}-short", "question": " ".join(q.question.split()[-3:])})
        for q in questions[::12]
    ]
    return [*questions, *short]


KEPT_HARMLESS: tuple[Mutation, ...] = (
    Mutation("shuffle the tables", index=shuffle_the_tables),
    Mutation("read nine candidates", read_nine_candidates),
    Mutation("rotate the space", rotate_the_question, index=rotate_vectors),
    Mutation("search in another thread", search_in_a_thread),
    Mutation("white space around words", add_white_space),
    Mutation("meaning weighs a little more", weights={"vector": 1.04}),
    Mutation("a little less budget", lambda patch: change_the_budget(patch, 0.92)),
    Mutation("unrelated text twice", index=add_unrelated_text_twice),
    Mutation("a new user", index=add_a_user),
    Mutation("leave out an irrelevant result", leave_out_an_irrelevant_result),
    Mutation("evidence first for a third", move_evidence_up),
    Mutation("evidence alone in half of the contexts", pack_evidence_alone),
    Mutation("evidence found deeper", find_evidence_deeper),
    Mutation("doubt what has no answer", doubt_what_has_no_answer),
    Mutation("vectors of questions known before", know_the_vectors),
    Mutation("a cold start", begin_cold),
    Mutation("bursts of other work", start_other_work),
    Mutation("float noise of scores", disturb_scores),
    Mutation("golden questions removed", questions=without_every_tenth),
    Mutation("harder golden questions added", questions=with_harder_ones),
)
