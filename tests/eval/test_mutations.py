"""The gate over a real index and reader: a sound change passes, broken query paths are caught."""

import hashlib
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from palimpsest.core.ids import text_hash
from palimpsest.index.write_index import write_index
from palimpsest.query.reader import open_index
from palimpsest.query.request.types import Scope
from palimpsest.store.tables import SCHEMAS, empty
from palimpsest_eval.gate.baseline import accept_baseline
from palimpsest_eval.gate.decide import decide
from palimpsest_eval.gate.invariants import check_invariants
from palimpsest_eval.golden.questions import GoldenSet, Question
from palimpsest_eval.golden.retrieval_run import SearchSettings
from palimpsest_eval.golden.score_golden import run_golden
from tests.eval.home import at, rows, ticking

THINGS = (
    "lamp", "kettle", "bicycle", "violin", "compass", "anchor", "lantern", "mirror", "saddle", "anvil", "ladder",
    "hammock", "barrel", "telescope", "trumpet", "blanket", "chisel", "candle", "basket", "helmet",
)  # fmt: skip
PLACES = ("harbour", "attic", "cellar", "orchard", "workshop", "chapel", "library", "stable", "kitchen", "garden")


def vector(text):
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    v = np.random.default_rng(seed).normal(size=384).astype(np.float32)
    return v / np.linalg.norm(v)


def build():
    """Two users; each thing was in one place, then moved to another: 40 facts, 20 of them retired, for each user."""
    t = {name: empty(name) for name in SCHEMAS}
    made = {
        n: [] for n in ("documents", "document_texts", "chunks", "memories", "embed_inputs", "relations", "versions")
    }
    for u, user in enumerate(("ana", "ben")):
        scope = {"collection": "notes", "user_id": user}
        for when, day in enumerate(("2024-01-01", "2024-06-01")):
            document = {"document_id": f"d-{user}-{when}", **scope}
            about = {"uri": f"{user}-{when}.md", "seq": 1, "is_current": True, "source_time": at(day)}
            texts, start = [], 0
            for i, thing in enumerate(THINGS):
                place = PLACES[(i + 3 * when + 5 * u) % len(PLACES)]
                text = f"The {thing} is kept in the {place}{' now' if when else ''}."
                m, old = f"{user}-{when}-{thing}", f"{user}-0-{thing}"
                span = {"text": text, "char_start": start, "char_end": start + len(text), "ordinal": i}
                made["chunks"].append({"chunk_id": f"c-{m}", **document, **span})
                more = {"chunk_ids": [f"c-{m}"], "observed_at": at(day), "search_text": text, "token_count": 12}
                made["memories"].append({"memory_id": m, **document, **span, **more})
                embedded = {"text": text, "text_hash": text_hash(text)}
                made["embed_inputs"].append({"memory_id": m, "kind": "memory", "ordinal": 0, **embedded})
                version = {"valid_from": at(day), "is_latest": True}
                if when:
                    pair = {"newer_id": m, "older_id": old, "label": "UPDATE"}
                    made["relations"].append({"relation_id": f"r-{m}", **scope, **pair})
                else:
                    until = {"superseded_by": f"{user}-1-{thing}", "valid_until": at("2024-06-01")}
                    version |= {"is_latest": False, **until}
                made["versions"].append({"memory_id": m, **scope, **version})
                texts.append(text)
                start += len(text) + 1
            made["documents"].append(document | about)
            made["document_texts"].append({"document_id": document["document_id"], "text": "\n".join(texts)})
    return t | {name: rows(name, *items) for name, items in made.items()}


def golden_questions():
    def quote(user, when, i, thing):
        place = PLACES[(i + 3 * when + 5 * ("ana", "ben").index(user)) % len(PLACES)]
        return {"uri": f"{user}-{when}.md", "quote": f"The {thing} is kept in the {place}"}

    return [
        Question(
            id=f"{user}-{thing}",
            question=f"Where is the {thing} kept?",
            type="updated",
            user=user,
            evidence=[quote(user, 1, i, thing)],
            stale=[quote(user, 0, i, thing)],
        )
        for user in ("ana", "ben")
        for i, thing in enumerate(THINGS)
    ]


TABLES = build()


def index_of(tables, path):
    def vectors(hashes):
        texts = dict(tables["embed_inputs"].select("text_hash", "text").iter_rows())
        return np.array([vector(texts[h]) for h in hashes])

    write_index(
        tables, vectors, path, {"build_id": "000001", "collections": {"notes": {"default": True}}, "strategies": {}}
    )
    return path


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return index_of(TABLES, tmp_path_factory.mktemp("gate") / "index.duckdb")


class Altered:
    """A reader with something done to its scope, its results or its time."""

    def __init__(self, reader, scope=lambda s: s, results=lambda r: r):
        self._reader, self._scope, self._results = reader, scope, results

    def search(self, text, scope, **filters):
        return self._results(self._reader.search(text, self._scope(scope), **filters))


def judged(reader, step_s=0.001):
    clock = ticking(step_s)
    return run_golden(
        reader, GoldenSet("notes", tuple(golden_questions()), "ana"), TABLES, SearchSettings("hybrid"), clock=clock
    )


@pytest.fixture(scope="module")
def baseline(index, tmp_path_factory):
    with open_index(index) as reader:
        return accept_baseline(judged(reader), tmp_path_factory.mktemp("b") / "notes.json", "first", who="test")


def verdict(reader, baseline, **more):
    return decide(judged(reader, **more), baseline, True)


def test_the_home_is_sound_and_its_repeats_never_fail(index, baseline):
    assert check_invariants(TABLES, index) == []
    with open_index(index) as reader:
        for _ in range(2):
            got = verdict(reader, baseline)
            assert (got.status, got.broken) == ("passed", ())
    assert got.means["R@5"] == 1.0
    assert got.smallest_loss <= 0.125


def last_first(r):
    return replace(r, memories=r.memories[::-1])


def only_other_words(r):
    return replace(r, memories=r.memories[5:], packed_ids=r.packed_ids[5:])


CAUGHT = {
    "ranks turned round": ({"results": last_first}, "R@5 fell"),
    "best results cut off": ({"results": only_other_words}, "R@5 fell"),
    "nothing is found": ({"results": lambda r: replace(r, memories=[], packed_ids=())}, "no judged query was answered"),
    "nothing is packed": ({"results": lambda r: replace(r, packed_ids=(), lines=())}, "packed_recall fell"),
    "the scope is ignored": ({"scope": lambda s: [Scope("notes", "ana"), Scope("notes", "ben")]}, "leak: "),
    "two users are swapped": ({"scope": lambda s: Scope("notes", "ben" if s.user_id == "ana" else "ana")}, "leak: "),
}  # fmt: skip


@pytest.mark.parametrize("name", CAUGHT)
def test_a_broken_query_path_is_caught(index, baseline, name):
    change, reason = CAUGHT[name]
    with open_index(index) as reader:
        got = verdict(Altered(reader, **change), baseline)
    assert got.status == "failed"
    assert any(r.startswith(reason) for r in got.reasons), got.reasons


def test_outdated_memories_among_the_results_are_caught(tmp_path, baseline):
    versions = TABLES["versions"].with_columns(is_latest=pl.lit(True))
    careless = TABLES | {"versions": versions}
    with open_index(index_of(careless, tmp_path / "i.duckdb")) as reader:
        got = verdict(reader, baseline)
    assert any(r.startswith("stale@5 rose") for r in got.reasons)
    assert {(2, "chains"), (2, "versions_recomputed")} <= {(v.invariant, v.name) for v in check_invariants(careless)}


def test_words_that_are_not_indexed_and_half_a_second_more_are_caught(tmp_path, baseline, index):
    mute = TABLES | {"memories": TABLES["memories"].with_columns(search_text=pl.lit("mute"))}
    with open_index(index_of(mute, tmp_path / "i.duckdb")) as reader:
        assert verdict(reader, baseline).status == "failed"
    with open_index(index) as reader:
        got = verdict(reader, baseline, step_s=0.5)
    (reason,) = got.reasons
    assert reason.startswith("latency: p95 500 ms ") and "over the budget of 400 ms" in reason
