"""What consolidation proposes of a built home, through the command."""

import datetime as dt
import json
from pathlib import Path

import pytest

from palimpsest.consolidation.consolidate import consolidate
from palimpsest.consolidation.find_proposals import revised_confidence
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest.store.proposals import Proposal, proposals_path, read_proposals, write_proposals
from tests.command import last_json, run
from tests.small_corpus import copy_built, write_chats, write_notes

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
    write_notes(base / "corpus", NOTES, user_id="u0")
    write_chats(base / "corpus")
    done = run("build", "--home", base / "home", "--corpus", base / "corpus")
    assert done.returncode == 0, done.stderr
    return base


@pytest.fixture
def made(built: Path, tmp_path: Path) -> Home:
    return copy_built(built, tmp_path)[0]


def texts_of(home: Home, ids) -> list[str]:
    memories = published(home).tables(["memories"])["memories"]
    by_id = dict(memories.select("memory_id", "text").iter_rows())
    return sorted(by_id[i].split("\n")[-1] or by_id[i] for i in ids)


def proposals_of(home: Home, kind: str):
    return [p for p in consolidate(home, everything=True).proposals if p.kind == kind]


def test_two_undated_files_with_two_values_are_one_contradiction(made):
    found = last_json(run("consolidate", "--home", made.path, "--json"))["proposals"]
    conflicts = [p for p in found if p["kind"] == "contradiction" and p["collection"] == "notes"]
    assert len(conflicts) == 1 and conflicts[0]["why"] == "undated"
    assert texts_of(made, conflicts[0]["memory_ids"]) == [
        "The bridge is 40 metres long.",
        "The bridge is 55 metres long.",
    ]
    assert conflicts[0]["keep"] == "" and {"proposal_id", "kind", "memory_ids", "user_id"} <= conflicts[0].keys()


def test_a_duplicate_agrees_in_numbers_and_names_and_their_order(made):
    (duplicate,) = proposals_of(made, "duplicate")
    texts = texts_of(made, duplicate.memory_ids)
    assert texts == ["A ferry from Quern to Weir leaves at 9 every morning.", NOTES["d.md"].strip()]


def test_what_has_ended_by_its_own_words_is_proposed_for_pruning(made):
    (expired,) = proposals_of(made, "prune")
    assert expired.why == "expired" and expired.memory_ids == (expired.drop,)


def test_an_update_is_no_contradiction(made):
    deadlines = {m for m, t in _texts(made).items() if "Heron" in t}
    assert len(deadlines) == 2
    assert not any(deadlines & set(p.memory_ids) for p in proposals_of(made, "contradiction"))


def _texts(home: Home) -> dict[str, str]:
    return dict(published(home).tables(["memories"])["memories"].select("memory_id", "text").iter_rows())


def test_a_contradiction_lowers_the_confidence_of_both_sides(made):
    changes = proposals_of(made, "confidence")
    assert len(changes) == 2 and all(p.value == 0.9 and p.why == "contradicted" for p in changes)


@pytest.mark.parametrize(
    ("before", "supporting", "contradicting", "after"),
    [(0.6, 0, 0, 0.6), (0.6, 1, 0, 0.69), (0.6, 9, 0, 0.84), (0.6, 0, 1, 0.43), (1.0, 2, 0, 1.0), (1.0, 0, 1, 0.9)],
)
def test_support_raises_confidence_and_contradiction_lowers_it(before, supporting, contradicting, after):
    assert revised_confidence(before, supporting, contradicting) == after


def test_a_second_run_adds_nothing_and_keeps_when_each_was_found(made):
    first = consolidate(made, everything=True, now=dt.datetime(2026, 6, 1, tzinfo=dt.UTC))
    again = consolidate(made, everything=True, now=dt.datetime(2026, 6, 2, tzinfo=dt.UTC))
    assert again.new == 0 and [*again.proposals] == [*first.proposals]


def test_the_first_run_looks_at_everything_and_the_next_at_what_is_new_and_a_sample(made):
    now = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    assert consolidate(made, now=now).everything
    second = consolidate(made, now=now)
    assert not second.everything and len(second.proposals) == len(read_proposals(made.path))


def test_no_proposal_names_memories_of_two_scopes(made):
    columns = ("memory_id", "collection", "user_id", "project_id")
    rows = published(made).tables(["memories"])["memories"].select(columns).iter_rows()
    scopes = {row[0]: row[1:] for row in rows}
    for p in consolidate(made, everything=True).proposals:
        assert {scopes[i] for i in p.memory_ids} == {p.scope}


def test_a_delete_removes_the_proposals_that_name_its_memories_and_proves_it(made):
    consolidate(made, everything=True)
    bridge = next(i for i, t in _texts(made).items() if "55 metres" in t)
    assert "55 metres" in proposals_path(made.path).read_text()
    delete(made, memories=[bridge])  # raises where any of it is found afterwards
    left = proposals_path(made.path).read_text()
    assert bridge not in left and "55 metres" not in left and "ferry" in left


def test_a_delete_of_a_user_removes_all_their_proposals(made):
    consolidate(made, everything=True)
    delete(made, user="u0")
    rows = [json.loads(line) for line in proposals_path(made.path).read_text().splitlines()]
    assert not [r for r in rows if r["user_id"] == "u0"]


def test_a_home_without_a_build_says_so_in_one_line(tmp_path):
    done = run("consolidate", "--home", tmp_path / "h")
    assert done.returncode == 2 and "nothing is published" in done.stderr


def test_the_list_begins_with_contradictions_and_ends_with_confidence_and_has_texts(made):
    consolidate(made, everything=True)
    known = list(read_proposals(made.path).values())
    first = known[0]
    memory = next(m for m in first.memory_ids)
    other = Proposal(
        "confidence", "supported", first.scope, (memory,), "its confidence from 0.50 to 0.60", 1.0, value=0.6
    )
    write_proposals(made.path, [*known, other])
    shown = run("consolidate", "review", "--limit", 100, "--home", made.path).stdout.splitlines()
    heads = [line.split()[1].rstrip(",") for line in shown if line[:16].isalnum() and "  " in line[:19]]
    order = ["contradiction", "duplicate", "connection", "note", "prune", "confidence"]
    assert heads == sorted(heads, key=order.index) and heads[0] == "contradiction" and heads[-1] == "confidence"
    assert shown[0].startswith(f"{heads.count('contradiction')} contradiction, ") and "score" not in shown[-3]
    assert shown[-1] == f"    [memory:{memory}] {texts_of(made, [memory])[0]}"
