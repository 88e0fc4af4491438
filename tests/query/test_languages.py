"""Sixty everyday texts in each of five languages, and twenty questions whose answers are known; see `languages/`."""

import json
from pathlib import Path

import pytest

from palimpsest.query.backends.duckdb_backend import DuckDBBackend
from palimpsest.query.ranking.rank import rank
from palimpsest.query.request.types import Scope
from palimpsest.text.languages import detect_language
from tests.query import made

FOLDER = Path(__file__).parent / "languages"
SCOPE = Scope("notes", "ana")


def lines(language, name):
    return [json.loads(line) for line in (FOLDER / language / name).read_text("utf-8").splitlines()]


def memories(*languages):
    texts = [(row["_id"], row["text"]) for language in languages for row in lines(language, "corpus.jsonl")]
    return [made.memory(i, text, language=detect_language(text)) for i, text in texts]


def open_index(path, *languages):
    made.write(made.tables(memories(*languages)), path)
    return DuckDBBackend(path)


def first_ranks(backend, language):
    """Returns the rank of each question's answer; 99 where it is not among the results."""
    answers = dict(line.split("\t")[:2] for line in (FOLDER / language / "qrels.tsv").read_text().splitlines())
    found = []
    for question in lines(language, "queries.jsonl"):
        query = made.scope_query(backend, question["text"], "hybrid", SCOPE)
        ids = [c.memory_id for c in rank(query, 1, 10)]
        answer = answers[question["_id"]]
        found.append(ids.index(answer) + 1 if answer in ids else 99)
    return found


@pytest.mark.parametrize("language", ["de", "es", "fr", "ja", "zh"])
def test_questions_in_the_language_of_the_texts_find_their_answers(language, tmp_path):
    ranks = first_ranks(open_index(tmp_path / "i.duckdb", language), language)
    assert sum(r <= 5 for r in ranks) >= 19 and sum(r == 1 for r in ranks) >= 17, ranks


def test_a_scope_in_several_languages_knows_them_and_its_questions_find_their_answers(tmp_path):
    backend = open_index(tmp_path / "i.duckdb", "de", "es")
    assert backend.languages(SCOPE) == ("de", "es") and backend.languages(Scope("notes", "nobody")) == ()
    for language in ("de", "es"):
        ranks = first_ranks(backend, language)
        assert sum(r <= 5 for r in ranks) >= 19, ranks


def test_an_english_scope_reads_words_as_before_and_loads_no_detector(tmp_path, monkeypatch):
    path = tmp_path / "i.duckdb"
    made.write(made.tables([made.memory("a", "The bees swarmed."), made.memory("b", "Rent is due.")]), path)
    monkeypatch.setattr("palimpsest.text.languages._detector", None)
    query = made.scope_query(DuckDBBackend(path), "Where do bees swarm?", "hybrid", SCOPE)
    assert query.terms == ["bee", "swarm"]
    assert rank(query, 1, 10)[0].memory_id == "a"


def test_a_memory_shows_its_language_and_where_filters_by_it(tmp_path):
    from palimpsest.query.request.types import Filters
    from palimpsest.query.request.where import parse_where

    backend = open_index(tmp_path / "i.duckdb", "de", "es")
    found = backend.memories(SCOPE, ["de01", "es01"])
    assert [found[i].language for i in ("de01", "es01")] == ["de", "es"]
    spanish = Filters(where=parse_where('language = "es"'))
    assert backend.passing(SCOPE, spanish, ["de01", "es01"]) == {"es01"}
