"""What a build says it changed since the last one, document by document."""

import pytest

from palimpsest.cli.summary import changes_lines
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.home import Home
from tests.small_corpus import TURNS, write_chats, write_notes


def build(home, corpus):
    return run_without_dagster(home, make_plan(home, [corpus])).manifest.changes


@pytest.mark.slow
def test_each_document_is_reported_with_what_became_of_its_memories(tmp_path):
    home, corpus = Home(tmp_path / "home"), tmp_path / "corpus"
    notes = {"edited.md": "Otters swim.\n", "gone.md": "Herons fly.\n", "same.md": "Bats sleep.\n"}
    assert build(home, write_notes(write_chats(corpus, TURNS[:2]), notes)) is None
    (corpus / "notes/gone.md").unlink()
    write_notes(corpus, {"edited.md": "Otters dive.\n", "new.md": "Moles dig.\n"})
    changes = build(home, write_chats(corpus, TURNS[:3]))
    by_uri = {d["uri"]: (d["change"], d["gained"], d["lost"]) for d in changes["documents"]}
    assert by_uri == {
        "edited.md": ("edited", 1, 1),
        "gone.md": ("removed", 0, 1),
        "new.md": ("added", 1, 0),
        "turns.jsonl": ("edited", 1, 1),
    }
    assert changes["counts"] == {"added": 1, "edited": 2, "removed": 1}
    assert changes_lines(changes)[1] == "    edited   chats/turns.jsonl: latest memories +1 -1"


@pytest.mark.slow
def test_a_document_retired_by_another_is_reported_as_related(tmp_path):
    home, corpus = Home(tmp_path / "home"), tmp_path / "corpus"
    write_notes(corpus, {"old.md": "Leave is 20 days.\n"})
    build(home, corpus)
    write_notes(corpus, {"new.md": "---\nsupersedes: old.md\n---\nLeave is 25 days.\n"})
    changes = build(home, corpus)
    assert {d["uri"]: (d["change"], d["gained"], d["lost"]) for d in changes["documents"]} == {
        "new.md": ("added", 1, 0),
        "old.md": ("related", 0, 1),
    }
