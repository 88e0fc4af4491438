"""Where results end: by how far each is above what is usual for its question."""

import numpy as np
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.query import search
from palimpsest.query.ranking.merge import features, least_relevance, relevance
from palimpsest.query.reader import open_index
from palimpsest.query.request.types import Memory, Scope
from palimpsest.query.rerank import MAX_TOKENS, AnswerReader, is_prose, pair_tokens
from palimpsest.query.scope.scope_query import Candidate
from tests.query.made import at, memory, tables, write

ANA = Scope("notes", "ana")
UNREAD = np.empty(0)


def candidates(*scores, vector=0.3):
    return [Candidate(f"m{i}", s, vector, 1.0, s) for i, s in enumerate(scores)]


def test_a_result_far_above_the_rest_is_likelier_evidence_than_one_of_many():
    usual = [0.2 - 0.01 * i for i in range(20)]
    apart = relevance(candidates(6.0, *usual), UNREAD)
    assert apart[0] > 3 * apart[1] and np.all((apart > 0) & (apart < 1))
    assert relevance(candidates(0.3, *usual), UNREAD)[0] < apart[0]
    assert relevance([], UNREAD).shape == (0,)


def test_what_answers_is_likelier_evidence_and_the_order_given_changes_nothing():
    usual = candidates(*[2.0 - 0.01 * i for i in range(20)])
    read = relevance(usual, np.array([-4.0, 4.0, -4.0]))
    assert read[1] > 3 * read[0] and np.array_equal(read[3:], relevance(usual, UNREAD)[3:])
    assert np.allclose(relevance(usual[::-1], UNREAD)[::-1], relevance(usual, UNREAD))


def test_the_reader_knows_an_answer_from_words_in_common_and_whose_it_is():
    def said(text, speaker="Ana"):
        return Memory("m", "notes", "ana", text, speaker=speaker, observed_at=at("2026-01-02"))

    notes = [said("Where do I live, you ask?"), said("I moved to Ghent in May."), said("The cat is asleep.")]
    assert AnswerReader().read("Where does Ana live?", notes).argmax() == 1
    assert AnswerReader().read("Where?", []).shape == (0,)
    alone = [AnswerReader().read("Where does Ana live?", [n])[0] for n in notes]
    assert alone == AnswerReader().read("Where does Ana live?", notes).tolist()
    long = AnswerReader().read("word " * 9_000, [said("word " * 9_000)])
    assert np.isfinite(long).all() and len(pair_tokens("word " * 9_000, "word " * 9_000)[0]) == MAX_TOKENS


def test_code_is_not_read():
    def stored(text):
        return Memory("m", "notes", "ana", text)

    code, prose = stored("fn main() { let x = a[0]; }"), stored("The port of the server is 8090.")
    assert is_prose([prose, prose, code]) and is_prose([]) and not is_prose([code, code, prose])


def test_results_come_in_order_of_relevance_where_answers_are_read(tmp_path, monkeypatch):
    texts = ["Where do the owls nest, I wonder?", "The owls have their young in the barn.", "Bees hum at noon."]
    write(tables([memory(f"m{i}", t) for i, t in enumerate(texts)]), tmp_path / "i.duckdb")
    with open_index(tmp_path / "i.duckdb") as reader:
        assert reader.search("Where do the owls nest?", ANA).memories[0].memory_id == "m0"
    monkeypatch.setenv("PALIMPSEST_RERANKER", "answers")
    with open_index(tmp_path / "i.duckdb") as reader:
        found = reader.search("Where do the owls nest?", ANA).memories
    assert [m.relevance for m in found] == sorted((m.relevance for m in found), reverse=True)


def test_a_search_that_may_abstain_returns_nothing_where_nothing_is_likely(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "LIKELY", 0.9)
    texts = [f"Bees number {i} hum at noon." for i in range(12)]
    write(tables([memory(f"m{i}", t) for i, t in enumerate(texts)]), tmp_path / "i.duckdb")
    with open_index(tmp_path / "i.duckdb") as reader:
        found = reader.search("Who painted the portrait?", ANA, abstain=True)
        assert found.abstained and found.memories == [] and found.to_json()["abstained"] is True
        assert not reader.search("Who painted the portrait?", ANA).abstained


def test_what_is_read_of_few_candidates_is_finite_and_the_first_is_never_below_itself():
    for count in (1, 2, 5, 40):
        read = features(candidates(*np.linspace(3, 0, count)))
        assert read.shape == (count, 11) and np.isfinite(read).all()
        assert read[0, 2] == read[0, 4] == read[0, 7] == read[0, 9] == 0


def test_results_end_below_the_least_relevance_but_the_best_is_returned(tmp_path, monkeypatch):
    texts = ["The owls nest in the barn.", *(f"Bees number {i} hum at noon." for i in range(12))]
    write(tables([memory(f"m{i}", t) for i, t in enumerate(texts)]), tmp_path / "i.duckdb")
    with open_index(tmp_path / "i.duckdb") as reader:
        assert len(reader.search("Where do the owls nest?", ANA).memories) == 10
        monkeypatch.setenv("PALIMPSEST_MIN_RELEVANCE", "100")
        found = reader.search("Where do the owls nest?", ANA)
        assert [m.memory_id for m in found.memories] == ["m0"] and found.packed_ids == ("m0",)
        every = reader.search("Where do the owls nest?", ANA, all_results=True)
        assert len(every.memories) == 10 and every.context == found.context
        assert every.to_json()["memories"][0]["relevance"] == round(every.memories[0].relevance, 6)


def test_a_least_relevance_that_is_no_share_is_refused(monkeypatch):
    monkeypatch.setenv("PALIMPSEST_MIN_RELEVANCE", "half")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_MIN_RELEVANCE: 'half' must be a whole number, 0 to 100"):
        least_relevance(0.5)


def test_what_says_the_same_is_one_result_with_its_days_and_how_often(tmp_path):
    said = [memory(f"m{i}", "The port is 8090.", observed_at=at(f"2026-01-0{i + 1}"), speaker="Dup") for i in range(3)]
    write(tables([*said, memory("x", "Bees hum at noon.")]), tmp_path / "i.duckdb")
    with open_index(tmp_path / "i.duckdb") as reader:
        found = reader.search("Which port is it?", ANA)
    assert len(found.memories[0].repeats) == 2 and len(found.memories) == 2
    assert "(2026-01-01 to 2026-01-03, Dup, 3 times) The port is 8090. [1]" in found.context
    best, other = (m.memory_id for m in found.memories)
    assert found.with_ids("It is 8090 [1], not [2, 9].") == f"It is 8090 [memory:{best}], not [2, 9]."
    assert found.with_ids("[1,2]") == f"[memory:{best}] [memory:{other}]"
