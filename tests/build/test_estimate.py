"""A dry run promises what a build does, and does none of it."""

import polars as pl
import pytest

from palimpsest.pipeline.estimate import _of_memories, _sampled_memories, dry_run
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.small_corpus import write_notes

PLACES = ["bridge", "harbour", "library", "station", "market", "museum", "theatre", "school", "bakery", "garden"]
NOTES = {
    f"2026-03-{n:02} {place}.md": f"The {place} of Ghent opens at {n} in the morning, and its keeper is on leave.\n"
    for n, place in enumerate(PLACES, 1)
}


def test_a_dry_run_counts_what_the_build_makes_and_leaves_the_home_as_it_was(tmp_path):
    corpus, home = write_notes(tmp_path / "corpus", NOTES), Home(tmp_path / "home")
    expected = dry_run(home, [corpus], None)
    assert not home.builds.exists() and expected.changed == ("notes",) and expected.seconds > 0
    home.create()
    run_without_dagster(home, make_plan(home, [corpus]))
    build = published(home)
    assert build is not None
    assert expected.counts["memories"] == build.table("notes", "memories").height == len(NOTES)
    assert expected.counts["embeddings"] == build.manifest.stages["notes"]["embeddings"].work.embeddings
    found = build.table("notes", "candidate_pairs").height
    assert expected.counts["candidate_pairs"] == pytest.approx(found, rel=0.5)
    again = dry_run(home, [corpus], None)
    assert again.changed == () and again.seconds == 0.0 and not any(again.counts.values())
    write_notes(corpus, {"2026-04-01 tower.md": "The tower of Ghent opens at noon.\n"})
    more = dry_run(home, [corpus], None)
    assert (more.counts["memories"], more.counts["candidate_pairs"]) == (1, 6)


def test_a_sample_is_made_of_neighbors_in_few_documents():
    ids = [f"{d}{n:02}" for d in "ab" for n in range(20)]
    memories = pl.DataFrame(
        {"memory_id": ids, "document_id": [i[0] for i in ids], "ordinal": [int(i[1:]) for i in ids], "unit": "turn"}
    )
    chosen = _sampled_memories(memories, memories.select("memory_id"), 14)
    assert chosen["memory_id"].to_list() == [*(f"a{n:02}" for n in range(12)), "a12", "a13"]
    new = memories.filter(pl.col("document_id") == "b").select("memory_id")
    assert set(_sampled_memories(memories, new, 6)["document_id"]) == {"b"}
    documents = pl.DataFrame({"document_id": ["a", "b"], "uri": ["a.md", "b.md"]})
    assert _of_memories(documents, chosen)["uri"].to_list() == ["a.md"]
    assert _of_memories(pl.DataFrame({"uri": ["a.md"]}), chosen).is_empty()
