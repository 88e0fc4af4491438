"""The index: rows by scope, words, links, support and what another format is known by."""

import datetime as dt
import json

import bm25s
import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import palimpsest.index.write_index as module
from palimpsest.core.files import FORMAT
from palimpsest.core.ids import content_id
from palimpsest.index import memory_table
from palimpsest.index import memory_table as module_word_tables
from palimpsest.index.memory_table import TITLE_WEIGHT, find_periods, period_table, score_words, word_tables
from palimpsest.index.write_index import write_index
from palimpsest.text.terms import terms
from tests.query import titled
from tests.query.made import at, memory, rows, tables, write

MADE = [
    memory("m1", "The launch is on Monday.", observed_at=at("2024-01-01")),
    memory("m2", "The launch moved to Friday.", observed_at=at("2024-02-01")),
    memory("m3", "The budget covers honey and bees.", title="Budget plan"),
    memory("b1", "Ben keeps bees.", user_id="ben"),
    memory("b2", "Ben sells honey.", user_id="ben"),
]


def read(path, sql):
    with duckdb.connect(str(path), read_only=True) as db:
        return db.execute(sql).fetchall()


def scores(path):
    return {(u, t, m): s for _, u, _, t, m, s in read(path, "SELECT * FROM word_scores")}


def test_rows_are_dense_and_lie_together_by_scope_in_the_order_of_ids(tmp_path):
    stats = write(tables(MADE), tmp_path / "index.duckdb")
    assert read(tmp_path / "index.duckdb", "SELECT row, memory_id FROM memories ORDER BY rowid") == [
        (0, "m1"),
        (1, "m2"),
        (2, "m3"),
        (3, "b1"),
        (4, "b2"),
    ]
    scopes = read(tmp_path / "index.duckdb", "SELECT collection, user_id, first_row, size FROM scopes")
    assert scopes == [("notes", "ana", 0, 3), ("notes", "ben", 3, 2)]
    assert (stats.memories, stats.vectors, stats.scopes) == (5, 5, 2)


def test_the_index_does_not_depend_on_the_order_of_the_tables_rows(tmp_path):
    made = tables(MADE, updates=[("m2", "m1")], mentions=[("m1", "Launch"), ("m2", "Launch"), ("b1", "Bees")])
    write(made, tmp_path / "a.duckdb")
    write({n: t.sample(fraction=1, shuffle=True, seed=5) for n, t in made.items()}, tmp_path / "b.duckdb")
    for table in ("memories", "vectors", "terms", "postings", "links", "entities", "mentions", "scopes", "nodes"):
        sql = f"SELECT * FROM {table} ORDER BY rowid"
        assert read(tmp_path / "a.duckdb", sql) == read(tmp_path / "b.duckdb", sql), table


def test_words_score_as_in_the_library_and_by_hand_and_titles_several_times(tmp_path):
    write(tables(MADE), tmp_path / "index.duckdb")
    found = scores(tmp_path / "index.duckdb")
    ben = [terms(m["text"]) for m in MADE if m["user_id"] == "ben"]
    model = bm25s.BM25(k1=1.2, b=0.75)
    model.index(ben, show_progress=False)
    for word in ("bee", "honey", "ben"):
        expected = model.get_scores([word])
        assert found.get(("ben", word, "b1"), 0) == pytest.approx(expected[0], abs=1e-6)
        assert found.get(("ben", word, "b2"), 0) == pytest.approx(expected[1], abs=1e-6)
    write(tables([memory("m1", "bees hive"), memory("m2", "hive"), memory("m3", "rain")]), tmp_path / "i.duckdb")
    idf = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    length_norm = 1.2 * (1 - 0.75 + 0.75 * 2 / (4 / 3))
    assert scores(tmp_path / "i.duckdb")["ana", "bee", "m1"] == pytest.approx(idf / (1 + length_norm), abs=1e-6)
    titled = memory("m1", "It grows.", title="Honey", search_text="Honey It grows.")
    written_out = memory("m1", "It grows.", search_text="Honey " * TITLE_WEIGHT + "It grows.")
    write(tables([titled, memory("m2", "rain")]), tmp_path / "a.duckdb")
    write(tables([written_out, memory("m2", "rain")]), tmp_path / "b.duckdb")
    assert scores(tmp_path / "a.duckdb") == scores(tmp_path / "b.duckdb")


def test_several_windows_of_a_memory_are_kept_in_order(tmp_path):
    made = tables(MADE[:2])
    windows = [
        {"memory_id": "m1", "kind": "window", "ordinal": i, "text": f"w{i}", "text_hash": f"{i}"} for i in (2, 0, 1)
    ]
    other = {"memory_id": "m2", "kind": "memory", "ordinal": 0, "text": "x", "text_hash": "9"}
    made["embed_inputs"] = rows("embed_inputs", *windows, other)
    write_index(made, lambda hs: np.array([[float(h)] * 384 for h in hs], np.float32), tmp_path / "i.duckdb", {})
    found = read(tmp_path / "i.duckdb", "SELECT row, vector[1] FROM vectors ORDER BY rowid")
    assert found == [(0, 0.0), (0, 1.0), (0, 2.0), (1, 9.0)]


def test_vectors_come_back_bit_for_bit_after_parquet_and_duckdb(tmp_path):
    vectors = np.random.default_rng(1).standard_normal((2, 384), dtype=np.float32)
    write_index(tables(MADE[:2]), lambda hashes: vectors, tmp_path / "i.duckdb", {})
    found = read(tmp_path / "i.duckdb", "SELECT vector FROM vectors ORDER BY rowid")
    assert np.array_equal(np.array([v for (v,) in found], np.float32), vectors)


def test_no_link_mention_or_topic_crosses_a_scope_even_if_a_table_has_one(tmp_path):
    made = tables(MADE, links=[("m2", "m1", "EXTEND"), ("m2", "b1", "EXTEND"), ("m3", "m1", "NONE")])
    made["entities"] = rows(
        "entities", {"entity_id": "e", "collection": "notes", "user_id": "ana", "name": "Bees", "type": "x"}
    )
    made["mentions"] = rows(
        "mentions",
        *({"memory_id": m, "entity_id": "e", "collection": "notes", "user_id": "ana"} for m in ("m1", "b1", "m3")),
    )
    write(made, tmp_path / "i.duckdb")
    assert read(tmp_path / "i.duckdb", "SELECT newer_row, older_row, label FROM links") == [(1, 0, "EXTEND")]
    assert read(tmp_path / "i.duckdb", "SELECT row FROM mentions ORDER BY row") == [(0,), (2,)]
    assert read(tmp_path / "i.duckdb", "SELECT df FROM entities") == [(2,)]


def test_a_memory_is_supported_by_extensions_repeats_elsewhere_and_mentions_of_its_title(tmp_path):
    made = tables(
        [
            memory("m1", "The lamp is in the attic."),
            memory("m2", "the lamp is in the ATTIC"),
            memory("m3", "The lamp is in the attic.", document_id="d-m1"),
            memory("m4", "The lamp is in the attic."),
            memory("m5", "It is brass."),
            memory("m6", "It was brass."),
            memory("b1", "It is brass.", user_id="ben"),
        ],
        updates=[("m5", "m4")],
        links=[("m5", "m1", "EXTEND"), ("m6", "m1", "DERIVE"), ("m6", "m5", "NONE")],
    )
    write(made, tmp_path / "i.duckdb")
    found = read(tmp_path / "i.duckdb", "SELECT memory_id, support FROM memories WHERE support > 0 ORDER BY memory_id")
    # m4 is retired: it supports nothing; m1 and m3 stand in one document
    assert found == [("m1", 3), ("m2", 2), ("m3", 1), ("m4", 3), ("m5", 1), ("m6", 1)]


def test_a_document_that_names_a_title_supports_what_is_titled_so(tmp_path):
    write(titled.made("fast"), tmp_path / "i.duckdb")
    found = dict(read(tmp_path / "i.duckdb", "SELECT memory_id, support FROM memories"))
    naming = read(
        tmp_path / "i.duckdb",
        "SELECT a.memory_id, count(DISTINCT b.document_id) FROM titles t JOIN memories a USING (row) "
        "JOIN mentions m USING (entity) JOIN memories b ON b.row = m.row "
        "WHERE a.document_id <> b.document_id GROUP BY ALL",
    )
    assert naming and dict(naming) == {i: n for i, n in found.items() if n}


def test_a_memory_without_a_vector_or_with_a_wrong_one_is_an_error_and_leaves_no_file(tmp_path):
    made = tables(MADE)
    made["embed_inputs"] = made["embed_inputs"].filter(pl.col("memory_id") != "m3")
    with pytest.raises(ValueError, match="m3"):
        write(made, tmp_path / "i.duckdb")
    with pytest.raises(ValueError, match="384"):
        write_index(tables(MADE), lambda hashes: np.zeros((len(hashes), 3)), tmp_path / "i.duckdb", {})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_file_that_was_there(tmp_path, monkeypatch):
    path = tmp_path / "i.duckdb"
    write(tables(MADE), path)
    before = path.read_bytes()
    monkeypatch.setattr(pl.DataFrame, "write_parquet", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write(tables(MADE[:1]), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["i.duckdb"]


def test_an_empty_build_and_memories_without_any_word_are_indexed(tmp_path):
    stats = write(tables([]), tmp_path / "i.duckdb")
    assert (stats.memories, stats.terms, stats.vectors) == (0, 0, 0)
    write(tables([memory("m1", "???"), memory("m2", "!!!")]), tmp_path / "i.duckdb")
    assert read(tmp_path / "i.duckdb", "SELECT count(*) FROM memories") == [(2,)]


_WORDS = st.lists(st.sampled_from(["bee", "hive", "honey", "rain", "plan", "x1"]), max_size=6).map(" ".join)


@settings(max_examples=4, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ana", "ben"]), _WORDS), min_size=1, max_size=8), st.randoms())
def test_another_users_memories_never_change_a_users_scores(tmp_path_factory, made, shuffle):
    folder = tmp_path_factory.mktemp("index")
    memories = [memory(f"m{i}", text or "?", user_id=user) for i, (user, text) in enumerate(made)]
    mixed = list(memories)
    shuffle.shuffle(mixed)
    write(tables(mixed), folder / "all.duckdb")
    together = scores(folder / "all.duckdb")
    for user in {m["user_id"] for m in memories}:
        write(tables([m for m in memories if m["user_id"] == user]), folder / "one.duckdb")
        assert scores(folder / "one.duckdb") == {k: v for k, v in together.items() if k[0] == user}


def test_tables_written_in_slices_equal_those_written_at_once(tmp_path, monkeypatch):
    memories = [memory(f"m{i:02}", f"note {i} about bees") for i in range(23)]
    write(tables(memories), tmp_path / "whole.duckdb")
    monkeypatch.setattr(module, "_SLICE_ROWS", 5)
    slices = []
    read = module._select
    monkeypatch.setattr(module, "_select", lambda name, part: slices.append((name, part.height)) or read(name, part))
    write(tables(memories), tmp_path / "sliced.duckdb")
    assert [n for name, n in slices if name == "vectors"] == [5, 5, 5, 5, 3]
    with (
        duckdb.connect(str(tmp_path / "whole.duckdb")) as whole,
        duckdb.connect(str(tmp_path / "sliced.duckdb")) as cut,
    ):
        for (name,) in whole.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            assert cut.table(name).fetchall() == whole.table(name).fetchall(), name


def _in_tables(path):
    with duckdb.connect(str(path), read_only=True) as db:
        names = [name for (name,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        return {name: db.execute(f"SELECT * FROM {name} ORDER BY rowid").fetchall() for name in names}


def test_what_an_earlier_index_has_of_the_same_texts_is_taken_over_and_the_index_is_the_same(tmp_path, monkeypatch):
    changed = [
        memory("a0", "Ann's boat leaves on 3 May 2025.", user_id="abe"),  # a scope before the others: all rows move
        *(m for m in MADE if m["memory_id"] != "m2"),
        memory("m4", "The launch was on 5 July 2024.", observed_at=at("2024-08-01")),
    ]
    changed[1] = MADE[0] | {"observed_at": at("2024-01-02")}
    write(tables(MADE), tmp_path / "before.duckdb")
    write(tables(changed), tmp_path / "anew.duckdb")
    found, scored, dated = (module.score_words, module.find_periods), list[str](), list[str]()
    monkeypatch.setattr(module, "score_words", lambda m: scored.extend(m["memory_id"]) or found[0](m))
    monkeypatch.setattr(module, "find_periods", lambda m: dated.extend(m["memory_id"]) or found[1](m))
    write(tables(changed), tmp_path / "after.duckdb", tmp_path / "before.duckdb")
    assert scored == ["a0", "m1", "m3", "m4"] and dated == ["a0", "m1", "m4"], "ben's are as they were"
    anew, after = _in_tables(tmp_path / "anew.duckdb"), _in_tables(tmp_path / "after.duckdb")
    assert all(after[name] == rows for name, rows in anew.items()), [n for n in anew if after[n] != anew[n]]
    (tmp_path / "damaged.duckdb").write_bytes((tmp_path / "before.duckdb").read_bytes()[:9000])
    for earlier in ("damaged.duckdb", "missing.duckdb"):
        write(tables(changed), tmp_path / "again.duckdb", tmp_path / earlier)
        assert _in_tables(tmp_path / "again.duckdb") == anew


def test_the_tables_and_columns_of_an_index_are_those_of_its_format(tmp_path):
    """A reader finds an index that another version wrote by its format: a new column or name needs a new format.

    A column that readers do without, such as `utc_offset` and `words_key`, needs none.
    """
    write(tables(MADE), tmp_path / "i.duckdb")
    columns = read(
        tmp_path / "i.duckdb", "SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY ALL"
    )
    assert (FORMAT, content_id("columns", json.dumps(columns))) == (13, "1263ab0ee0a3cec7")


def _memories(sizes: list[int]) -> pl.DataFrame:
    scopes = [scope for scope, size in enumerate(sizes) for _ in range(size)]
    texts = [f"alpha beta{i % 3} gamma{i % 5} delta{i}" for i in range(len(scopes))]
    columns = {"row": pl.Int32, "scope": pl.Int32, "search_text": pl.String, "title": pl.String, "language": pl.String}
    titles = [None if i % 4 else f"Title beta{i % 3}" for i in range(len(scopes))]
    languages = [(None, "en", "de")[i % 3] for i in range(len(scopes))]
    return pl.DataFrame([range(len(scopes)), scopes, texts, titles, languages], schema=columns)


def words_of(memories: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return word_tables(memories, score_words(memories))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_words_are_the_same_whatever_chunks_the_texts_are_cut_into(size, monkeypatch):
    memories = _memories([1, 9, 2, 20, 3, 1, 4, 2, 5])
    whole = words_of(memories)
    monkeypatch.setattr(module_word_tables, "_TEXTS_PER_CHUNK", size)
    cut = words_of(memories)
    assert all(cut[name].equals(frame) for name, frame in whole.items())


@pytest.mark.parametrize("size", [1, 3])
def test_periods_are_the_same_whatever_chunks_the_texts_are_cut_into(size, monkeypatch):
    texts = [f"It opened in {1990 + i} and closed two weeks ago." for i in range(9)] + ["It rained.", None]
    times = [dt.datetime(2026, 3, 1 + i, tzinfo=dt.UTC) for i in range(10)] + [None]
    memories = pl.DataFrame({"row": range(11), "text": texts, "observed_at": times, "utc_offset": [None] * 11})
    memories = memories.cast({"row": pl.Int32, "utc_offset": pl.Int64})
    whole = period_table(find_periods(memories))
    assert whole["row"].is_sorted() and whole["row"].unique().to_list() == list(range(10))
    monkeypatch.setattr(memory_table, "_TEXTS_PER_CHUNK", size)
    assert period_table(find_periods(memories)).equals(whole)


def test_postings_of_a_scope_equal_those_of_its_memories_alone():
    memories = _memories([3, 4])
    both, second = words_of(memories), words_of(memories.filter(pl.col("scope") == 1))
    terms = both["terms"].filter(pl.col("scope") == 1)
    assert terms.drop("first").equals(second["terms"].drop("first"))
    start = int(terms["first"].min())
    assert both["postings"].slice(start).equals(second["postings"])


def test_a_scope_without_words_has_a_term_that_no_question_has():
    memories = _memories([1]).with_columns(search_text=pl.lit(None, pl.String), title=pl.lit(None, pl.String))
    assert words_of(memories)["terms"]["term"].to_list() == [""]
