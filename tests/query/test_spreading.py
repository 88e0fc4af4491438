import duckdb
import numpy as np
import polars as pl
import pytest

from palimpsest.entities.collection_shape import strategy_for
from palimpsest.index.write_index import write_index
from palimpsest.memories.form import context_inputs
from palimpsest.query import Scope, open_index
from palimpsest.query.embed_query import query_embedder
from palimpsest.query.ranking import rank
from tests.query.made import memory, tables
from tests.query.titled import made

ANA = Scope("notes", "ana")


def index(path, out):
    inputs = pl.concat([out[n].select("text_hash", "text") for n in ("embed_inputs", "context_inputs")])
    texts = dict(inputs.iter_rows())

    def vectors(hashes):
        return np.array([query_embedder().embed(texts[h]) for h in hashes], np.float32).reshape(-1, 384)

    write_index(out, vectors, path, {"build_id": "000001", "model_id": "test", "strategies": {"notes": "graph"}})
    return path


QUESTION = "Where was the founder of Port Elm born?"


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    """Readers of the full and of the fast profile."""
    folder = tmp_path_factory.mktemp("titled")
    found = {p: open_index(index(folder / f"{p}.duckdb", made(p))) for p in ("full", "fast")}
    yield found
    for reader in found.values():
        reader.close()


def scored(reader, **options):
    return [(m.memory_id, m.score) for m in reader.search(QUESTION, ANA, k=8, **options).memories]


@pytest.mark.parametrize("profile", ["full", "fast"])
def test_a_passage_is_found_over_the_name_that_the_first_one_gives(readers, profile):
    found = readers[profile].search(QUESTION, ANA, k=3, explain=True)
    assert [m.title for m in found.memories][:2] == ["Port Elm", "Ada Quist"]
    assert "the question names its title, 'Port Elm'" in found.memories[0].why
    assert "result 1 names its title, 'Ada Quist'" in found.memories[1].why


def test_paths_are_explained_for_returned_results_only(readers, monkeypatch):
    explained = []
    real = rank._name_link
    monkeypatch.setattr(rank, "_name_link", lambda view, *args: explained.append(args[1]) or real(view, *args))
    found = readers["full"].search(QUESTION, ANA, k=3)
    assert len(found.memories) == 3 and len(explained) <= 1  # the first two are reached by their titles


def test_an_index_without_the_words_of_sentences_gives_the_same_scores(readers, tmp_path):
    path = index(tmp_path / "i.duckdb", made("fast"))
    with duckdb.connect(str(path)) as db:
        db.execute("DROP INDEX sentences_by_row").fetchall()
        for column in ("terms", "term_counts"):
            db.execute(f"ALTER TABLE sentences DROP COLUMN {column}").fetchall()
    with open_index(path) as reader:
        assert scored(reader, strategy="graph") == scored(readers["fast"], strategy="graph")


def test_statements_keep_what_they_score_by_themselves_at_full_weight(readers):
    found = readers["fast"].search(QUESTION, ANA, k=8, strategy="statements", explain=True)
    titles = [m.title for m in found.memories]
    assert titles[0] == "Port Elm" and titles.index("Ada Quist") < titles.index("Births")
    assert "'Ada Quist'" in found.memories[titles.index("Ada Quist")].why


def test_nothing_is_reached_over_what_is_no_candidate(tmp_path):
    with open_index(index(tmp_path / "i.duckdb", made(updates=[("m6", "m1")]))) as reader:
        found = reader.search(QUESTION, ANA, k=8, explain=True)
    assert "m1" not in {m.memory_id for m in found.memories}
    assert {link.kind for m in found.memories for link in m.path if "m1" in link} <= {"UPDATE"}


def test_a_question_may_leave_out_what_a_title_has_in_brackets(tmp_path):
    out = made()
    for table, column in (("memories", "title"), ("entities", "name")):
        out[table] = out[table].with_columns(pl.col(column).replace("Sool", "Sool (river)"))
    with open_index(index(tmp_path / "i.duckdb", out)) as reader:
        found = reader.search("How long is the Sool?", ANA, explain=True)
    assert "the question names its title, 'Sool (river)'" in found.memories[0].why


def test_a_question_that_names_nothing_is_ranked_by_vectors_and_words_in_any_order_of_rows(readers, tmp_path):
    assert readers["full"].search("what grinds corn?", ANA).memories[0].title == "Mills"
    assert readers["full"].search("corn", ANA, session="none").memories == []
    shuffled = {n: t.sample(fraction=1, shuffle=True, seed=3) for n, t in made().items()}
    with open_index(index(tmp_path / "b.duckdb", shuffled)) as reader:
        assert scored(reader) == scored(readers["full"])


def test_sentences_without_vectors_have_none_next_to_a_collection_that_has_some(tmp_path):
    out, facts = made(), tables([memory("f1", "A mill stands in Varn.", collection="facts", unit="statement")])
    facts["context_inputs"] = context_inputs(facts["memories"], "statements", True)
    path = index(tmp_path / "i.duckdb", {n: pl.concat([t, facts[n]]) if n in facts else t for n, t in out.items()})
    with duckdb.connect(str(path), read_only=True) as db:
        stored = db.execute(
            "SELECT memory_id, vectors FROM sentences JOIN memories USING (row) ORDER BY ALL"
        ).fetchall()
    assert {i: len(v) if v else v for i, v in stored} == {"f1": None} | {f"m{i}": 2 * 384 * 2 for i in range(8)}


def test_passages_that_name_each_others_titles_are_searched_as_a_graph():
    out = made()
    assert strategy_for(out["memories"]) == "graph"
    chapters = out["memories"].with_columns(title=pl.lit("Handbook"))
    assert strategy_for(chapters) == "dated"
    assert strategy_for(out["memories"].with_columns(unit=pl.lit("turn"))) == "turns"
    each_alone = out["memories"].with_columns(user_id=pl.col("memory_id"))
    assert strategy_for(each_alone) == "dated"


def test_sentences_are_carried_over_and_equal_those_made_from_nothing():
    out = made()
    memories, before = out["memories"], context_inputs(out["memories"].head(5), "graph", True)
    whole = context_inputs(memories, "graph", True)
    assert context_inputs(memories, "graph", True, before).equals(whole)
    assert context_inputs(memories, "graph", False, before).equals(context_inputs(memories, "graph", False))
    assert context_inputs(memories, "dated", True, before).is_empty()
    assert context_inputs(memories, "statements", True)["text_hash"].null_count() == whole.height
    first = whole.filter(pl.col("memory_id") == "m0")
    assert first["text"].to_list() == ["Port Elm is a harbour on the coast.", "It was founded by Ada Quist."]
    assert first.select("char_start", "char_end").rows() == [(0, 35), (36, 64)]
