"""The postings of words by scope."""

import datetime as dt

import polars as pl
import pytest

from palimpsest.index import memory_table
from palimpsest.index import memory_table as module
from palimpsest.index.memory_table import find_periods, period_table, score_words, word_tables


def _memories(sizes: list[int]) -> pl.DataFrame:
    scopes = [scope for scope, size in enumerate(sizes) for _ in range(size)]
    texts = [f"alpha beta{i % 3} gamma{i % 5} delta{i}" for i in range(len(scopes))]
    columns = {"row": pl.Int32, "scope": pl.Int32, "search_text": pl.String, "title": pl.String}
    titles = [None if i % 4 else f"Title beta{i % 3}" for i in range(len(scopes))]
    return pl.DataFrame([range(len(scopes)), scopes, texts, titles], schema=columns)


def words_of(memories: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return word_tables(memories, score_words(memories))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_words_are_the_same_whatever_chunks_the_texts_are_cut_into(size, monkeypatch):
    memories = _memories([1, 9, 2, 20, 3, 1, 4, 2, 5])
    whole = words_of(memories)
    monkeypatch.setattr(module, "_TEXTS_PER_CHUNK", size)
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
