"""What consolidation proposes of a built home, through the command."""

import datetime as dt
from pathlib import Path

import pytest

from palimpsest.consolidation.consolidate import consolidate
from palimpsest.consolidation.find_proposals import revised_confidence
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.store.proposals import Proposal, proposals_path, read_proposals, write_proposals
from tests.command import last_json, run
from tests.export.made import with_own_vectors
from tests.small_corpus import built_notes, copy_built, write_chats

NOTES = {
    "a.md": "The bridge is 40 metres long.\n",
    "b.md": "The bridge is 55 metres long.\n",
    "c.md": "The harbour has two cranes.\n",
    "d.md": "The ferry from Quern to Weir leaves at nine every morning.\n",
    "e.md": "A ferry from Quern to Weir leaves at 9 every morning.\n",
    "f.md": "The ferry from Weir to Quern leaves at nine every morning.\n",
    "g.md": "---\nvalid_until: 2024-05-01\n---\nThe summer fair takes place on the meadow.\n",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, shared_vectors) -> Path:
    base = tmp_path_factory.mktemp("consolidated")
    write_chats(base / "corpus")
    built_notes(base, shared_vectors, NOTES, user_id="u0")
    return base


@pytest.fixture(scope="module")
def found(built: Path, tmp_path_factory: pytest.TempPathFactory, shared_vectors) -> tuple[Home, tuple[Proposal, ...]]:
    """A home that was looked at once, which no test changes, and all that was found."""
    home = copy_built(built, tmp_path_factory.mktemp("looked"), shared_vectors)[0]
    return home, tuple(consolidate(home, everything=True).proposals)


@pytest.fixture
def made(built: Path, tmp_path: Path, shared_vectors: Path) -> Home:
    return with_own_vectors(copy_built(built, tmp_path, shared_vectors)[0])


def texts_of(home: Home, ids) -> list[str]:
    by_id = _texts(home)
    return sorted(by_id[i].split("\n")[-1] or by_id[i] for i in ids)


def proposals_of(found, kind: str) -> list[Proposal]:
    return [p for p in found[1] if p.kind == kind]


def test_two_undated_files_with_two_values_are_one_contradiction(made):
    listed = last_json(run("consolidate", "--home", made.path, "--json"))["proposals"]
    (conflict,) = [p for p in listed if p["kind"] == "contradiction" and p["collection"] == "notes"]
    assert conflict["why"] == "undated" and conflict["keep"] == ""
    assert texts_of(made, conflict["memory_ids"]) == [NOTES["a.md"].strip(), NOTES["b.md"].strip()]
    assert {"proposal_id", "kind", "memory_ids", "user_id"} <= conflict.keys()


def test_what_is_found_of_duplicates_ended_memories_updates_and_confidence(found):
    home, _ = found
    (duplicate,) = proposals_of(found, "duplicate")  # it agrees in numbers, names and their order
    assert texts_of(home, duplicate.memory_ids) == [NOTES["e.md"].strip(), NOTES["d.md"].strip()]
    (expired,) = proposals_of(found, "prune")
    assert expired.why == "expired" and expired.memory_ids == (expired.drop,)
    deadlines = {m for m, t in _texts(home).items() if "Heron" in t}
    assert len(deadlines) == 2, "an update is no contradiction"
    assert not any(deadlines & set(p.memory_ids) for p in proposals_of(found, "contradiction"))
    changes = proposals_of(found, "confidence")
    assert len(changes) == 2 and all(p.value == 0.9 and p.why == "contradicted" for p in changes)
    columns = ("memory_id", "collection", "user_id", "project_id")
    rows = published(home).tables(["memories"])["memories"].select(columns).iter_rows()
    scopes = {row[0]: row[1:] for row in rows}
    assert all({scopes[i] for i in p.memory_ids} == {p.scope} for p in found[1])


def _texts(home: Home) -> dict[str, str]:
    return dict(published(home).tables(["memories"])["memories"].select("memory_id", "text").iter_rows())


@pytest.mark.parametrize(
    ("before", "supporting", "contradicting", "after"),
    [(0.6, 0, 0, 0.6), (0.6, 1, 0, 0.69), (0.6, 9, 0, 0.84), (0.6, 0, 1, 0.43), (1.0, 2, 0, 1.0), (1.0, 0, 1, 0.9)],
)
def test_support_raises_confidence_and_contradiction_lowers_it(before, supporting, contradicting, after):
    assert revised_confidence(before, supporting, contradicting) == after


def test_a_second_run_adds_nothing_keeps_when_each_was_found_and_looks_at_what_is_new_and_a_sample(made):
    june, later = dt.datetime(2026, 6, 1, tzinfo=dt.UTC), dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    first = consolidate(made, now=june)
    again = consolidate(made, everything=True, now=june + dt.timedelta(days=1))
    assert first.everything and again.new == 0 and [*again.proposals] == [*first.proposals]
    second = consolidate(made, now=later)
    assert not second.everything and len(second.proposals) == len(read_proposals(made.path))


def test_a_delete_removes_the_proposals_that_name_its_memories_and_of_its_user_and_proves_it(made):
    consolidate(made, everything=True)
    bridge = next(i for i, t in _texts(made).items() if "55 metres" in t)
    assert "55 metres" in proposals_path(made.path).read_text()
    delete(made, memories=[bridge])  # raises where any of it is found afterwards
    left = proposals_path(made.path).read_text()
    assert bridge not in left and "55 metres" not in left and "ferry" in left
    delete(made, user="u0")
    assert not [r for r in read_proposals(made.path).values() if r.scope[1] == "u0"]


def test_a_home_without_a_build_says_so_in_one_line(tmp_path):
    done = run("consolidate", "--home", tmp_path / "h")
    assert done.returncode == 2 and "nothing is published" in done.stderr


def test_the_list_begins_with_contradictions_and_ends_with_confidence_and_has_texts(made):
    consolidate(made, everything=True)
    known = list(read_proposals(made.path).values())
    first = known[0]
    memory, said = first.memory_ids[0], "its confidence from 0.50 to 0.60"
    other = Proposal("confidence", "supported", first.scope, (memory,), said, 1.0, value=0.6)
    write_proposals(made.path, [*known, other])
    shown = run("consolidate", "review", "--limit", 100, "--home", made.path).stdout.splitlines()
    heads = [line.split()[1].rstrip(",") for line in shown if line[:16].isalnum() and "  " in line[:19]]
    order = ["contradiction", "duplicate", "connection", "note", "prune", "confidence"]
    assert heads == sorted(heads, key=order.index) and heads[0] == "contradiction" and heads[-1] == "confidence"
    assert shown[0].startswith(f"{heads.count('contradiction')} contradiction, ") and "score" not in shown[-3]
    assert shown[-1] == f"    [memory:{memory}] {texts_of(made, [memory])[0]}"
