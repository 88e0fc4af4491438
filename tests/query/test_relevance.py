"""Where results end: by how far each is above what is usual for its question."""

import numpy as np
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.query.ranking.candidate import Candidate
from palimpsest.query.ranking.relevance import features, least_relevance, relevance
from palimpsest.query.reader import open_index
from palimpsest.query.request.types import Scope
from tests.query.made import at, memory, tables, write

ANA = Scope("notes", "ana")


def candidates(*scores, vector=0.3):
    return [Candidate(f"m{i}", s, vector, 1.0, s) for i, s in enumerate(scores)]


def test_a_result_far_above_the_rest_is_likelier_evidence_than_one_of_many():
    usual = [0.2 - 0.01 * i for i in range(20)]
    apart = relevance(candidates(6.0, *usual))
    assert apart[0] > 5 * apart[1] and np.all((apart > 0) & (apart < 1))
    assert relevance(candidates(0.3, *usual))[0] < apart[0]
    assert relevance([]).shape == (0,)


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
        least_relevance()


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
