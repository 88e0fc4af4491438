"""A home whose collections have several embedders, and the change of a home's embedder."""

import json
import signal
import subprocess

import duckdb
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_json
from palimpsest.memories import server_embedder
from palimpsest.memories.embedders import collection_spaces
from palimpsest.memories.vector_space import Space
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan, say_what_is_broken
from palimpsest.query import embed_query, open_home
from palimpsest.store.builds import published
from palimpsest.store.embeddings import home_embedder
from palimpsest.store.home import Home
from palimpsest_eval.gate.decide import judge_embedder_change
from palimpsest_eval.gate.verdict import CollectionVerdict
from palimpsest_eval.golden.golden_run import GoldenRun
from palimpsest_eval.runs.judge_build import find_violations
from tests.command import CLI, run
from tests.memories.embedding_server import EmbeddingServer
from tests.small_corpus import write_chats, write_notes


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(embed_query, "_loaded", {})  # a process keeps one client a space, whatever its address
    with EmbeddingServer() as running:
        monkeypatch.setenv(server_embedder.URL, running.url)
        server_embedder.load_server.cache_clear()
        yield running
    server_embedder.load_server.cache_clear()


def test_collections_of_two_spaces_are_searched_together_each_in_its_own(tmp_path, toy):
    corpus = write_chats(tmp_path / "corpus")
    notes = {"a.md": "Ann keeps bees on the roof.", "b.md": "The boiler is noisy.", "c.md": "Tax is due in June."}
    write_notes(corpus, notes, user_id="ann", embedder="openai:toy")
    home = Home(tmp_path / "home")
    build = run_without_dagster(home, make_plan(home, [corpus]))
    spaces = collection_spaces(build)
    assert {name: s.dimensions for name, s in spaces.items()} == {"chats": 384, "notes": 8}
    assert find_violations(home, build) == []
    with duckdb.connect(str(build.index), read_only=True) as db:
        of_memories = (
            "SELECT data_type FROM duckdb_columns() WHERE column_name = 'vector' AND table_name LIKE 'vectors%'"
        )
        columns = db.execute(of_memories).fetchall()
    assert sorted(columns) == [("FLOAT[384]",), ("FLOAT[8]",)]
    toy.batches.clear()
    with open_home(home.path) as reader:
        scopes = reader.resolve_scopes(user="ann", all_collections=True)
        found = reader.search("Ann keeps bees", scopes, k=8).memories
    best = {c: next(m for m in found if m.collection == c) for c in ("chats", "notes")}
    assert best["notes"].text.startswith("Ann keeps bees") and best["notes"].vector_score > best["chats"].vector_score
    assert toy.batches == [1]  # the question, once for its space


def build_json(*args):
    done = run("build", "--json", "--home", "home", *args)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_a_change_of_embedder_keeps_the_relations_and_is_taken_back_without_embedding(tmp_path, toy, monkeypatch):
    monkeypatch.chdir(tmp_path)
    home, first = Home(tmp_path / "home"), build_json("--corpus", write_chats(tmp_path / "corpus"))
    changed = build_json("--embedder", "openai:toy")
    (line,) = changed["gate"]["embedders"]
    assert line.startswith("chats: all-MiniLM-L6-v2-") and "-> toy-server-" in line and "no golden question" in line
    assert changed["published"] and home_embedder(home) == "openai:toy"
    assert changed["work"]["embeddings"] == 5 and changed["digest"] == first["digest"]
    assert build_json()["work"]["embeddings"] == 0 and home_embedder(home) == "openai:toy"
    back = build_json("--embedder", "minilm")
    assert back["published"] and back["work"]["embeddings"] == 0 and home_embedder(home) == "minilm"


@pytest.mark.slow
def test_a_change_that_is_killed_leaves_the_home_with_its_embedder(tmp_path, toy, monkeypatch):
    monkeypatch.chdir(tmp_path)
    home, first = Home(tmp_path / "home"), build_json("--corpus", write_chats(tmp_path / "corpus"))
    building = subprocess.Popen([CLI, "build", "--home", "home", "--embedder", "openai:toy"], stderr=subprocess.DEVNULL)

    def kill_where_texts_are_embedded(texts):
        if len(texts) > 1:
            building.kill()

    toy.on_batch = kill_where_texts_are_embedded
    assert building.wait(120) == -signal.SIGKILL
    assert home_embedder(home) == "minilm" and published(home).build_id == first["build_id"]
    assert build_json()["work"]["embeddings"] == 0 and home_embedder(home) == "minilm"


def test_the_embedder_is_recorded_where_the_published_build_has_its_vectors_already(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = build_json("--corpus", write_chats(tmp_path / "corpus"))
    assert build_json("--embedder", "minilm")["build_id"] == first["build_id"]
    monkeypatch.setenv("PALIMPSEST_EMBEDDER", "openai:toy")
    assert home_embedder(Home(tmp_path / "home")) == "minilm"


def test_the_embedder_of_a_home_that_an_earlier_version_recorded_is_read(tmp_path):
    home = Home(tmp_path)
    write_json(home.embedder_file, {"embedder": "openai:toy"})
    assert home_embedder(home) == "openai:toy"


def test_an_embedder_that_does_not_answer_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build_json("--corpus", write_chats(tmp_path / "corpus"))
    monkeypatch.setenv(server_embedder.URL, "http://127.0.0.1:9/v1")
    monkeypatch.setattr(server_embedder, "_FIRST_WAIT_S", 0.01)
    server_embedder.load_server.cache_clear()
    home = Home(tmp_path / "home")
    before = published(home).build_id
    assert run("build", "--home", "home", "--embedder", "openai:toy").returncode == 3
    assert published(home).build_id == before and home_embedder(home) == "minilm"
    assert run("query", "deadline", "--home", "home").returncode == 0


def test_an_unknown_embedder_in_collection_yaml_names_the_file(tmp_path):
    corpus = write_notes(tmp_path / "corpus", {"a.md": "x"}, embedder="./none")
    with pytest.raises(
        PalimpsestError, match=r"collection.yaml: embedder .*notes/none: no such folder.*collection.yaml"
    ):
        say_what_is_broken(make_plan(Home(tmp_path / "home"), [corpus]))


def golden_run(*values):
    scores = {f"q{i}": {"R@5": v, "nDCG@10": v, "packed_recall": v} for i, v in enumerate(values)}
    return GoldenRun("notes", per_query=scores)


def test_a_space_that_is_worse_than_the_published_one_closes_the_gate():
    old, new = Space("minilm", "old", 384), Space("x", "new", 8)
    worse = CollectionVerdict("notes", "passed", run=golden_run(*[0.0] * 10, *[1.0] * 10))
    judged = judge_embedder_change(worse, old, new, golden_run(*[1.0] * 20))
    assert judged.status == "failed" and "R@5 1.0000 -> 0.5000" in judged.reasons[0]
    better = CollectionVerdict("notes", "passed", run=golden_run(*[1.0] * 20))
    judged = judge_embedder_change(better, old, new, golden_run(*[0.0] * 10, *[1.0] * 10))
    assert judged.status == "passed" and "R@5 0.5000 -> 1.0000" in judged.embedder
    unjudged = judge_embedder_change(CollectionVerdict("notes", "unjudged"), old, new, None)
    assert unjudged.status == "unjudged" and "no golden question" in unjudged.embedder
