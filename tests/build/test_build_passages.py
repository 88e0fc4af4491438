"""Titled passages through the build: an incremental build equals one from scratch, sentence data included."""

import shutil

import pytest

from palimpsest.memories.embedders import embedding_store
from palimpsest.pipeline.finish import digest, run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.query import Scope, open_index
from palimpsest.store.home import Home
from tests.query.titled import TEXTS
from tests.small_corpus import write_notes

QUESTION = "Where was the founder of Port Elm born?"


def corpus(tmp_path, texts, **settings):
    notes = {f"{title.replace(' ', '-')}.md": f"# {title}\n\n{text}\n" for title, text in texts.items()}
    shutil.rmtree(tmp_path / "corpus", ignore_errors=True)
    return write_notes(tmp_path / "corpus", notes, **settings)


def run(home, folder):
    home.create()
    return run_without_dagster(home, make_plan(home, [folder]))


def strategy_and_scores(build):
    with open_index(build.index) as reader:
        found = reader.search(QUESTION, Scope("notes", "shared"), k=8)
    return found.strategy, [(m.memory_id, round(m.score, 6)) for m in found.memories]


@pytest.mark.parametrize("profile", ["full", "fast"])
@pytest.mark.slow
def test_an_edit_of_a_titled_passage_equals_a_build_from_scratch(tmp_path, profile):
    home = Home(tmp_path / "home")
    first = run(home, corpus(tmp_path, TEXTS, profile=profile))
    sentences = first.table("notes", "context_inputs")
    assert first.manifest.settings["strategies"] == {"notes": "graph"} and sentences.height >= 2 * len(TEXTS)
    store = embedding_store(home)
    assert not store.missing(sentences["text_hash"].drop_nulls())
    assert (sentences["text_hash"].null_count() == 0) == (profile == "full")
    folder = corpus(tmp_path, TEXTS | {"Mills": "Mills grind corn. The mill at Varn is the oldest."}, profile=profile)
    grown = run(home, folder)
    work = grown.manifest.stages["notes"]["embeddings"].work.embeddings
    assert work == (2 if profile == "full" else 1)  # the passage, and its one new sentence where those have vectors
    fresh = Home(tmp_path / "fresh", home.embeddings_path)
    fresh.create()
    shutil.copytree(home.log, fresh.log, dirs_exist_ok=True)
    scratch = run(fresh, folder)
    assert digest(grown.tables(indexed_tables())) == digest(scratch.tables(indexed_tables()))
    assert grown.table("notes", "context_inputs").equals(scratch.table("notes", "context_inputs"))
    assert strategy_and_scores(grown) == strategy_and_scores(scratch) and strategy_and_scores(grown)[0] == "graph"
