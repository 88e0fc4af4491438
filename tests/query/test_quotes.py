"""What a sentence of a long memory is worth for a question."""

import numpy as np
import pytest

from palimpsest.query.context.quotes import quotable_sentences
from palimpsest.query.embed_query import embed_query
from palimpsest.query.reader import open_index
from palimpsest.query.request.types import Scope
from palimpsest.query.scope.scope_arrays import rows_of
from tests.query import made

ANA = Scope("notes", "ana")
OTHER = "Sentence {} speaks of the mill and the valley and of other matters at some length."


def page(about):
    return " ".join(about.get(i, OTHER.format(i)) for i in range(60))


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    pages = {
        "m1": page({20: "The wheel was sold to Henk.", 40: "The mill, the mill and the mill of the valley."}),
        "m2": page({30: "The ferry crosses at dawn and sails back at noon."}),
    }
    path = tmp_path_factory.mktemp("quotes") / "index.duckdb"
    made.write(made.tables([made.memory(i, text) for i, text in pages.items()]), path)
    with open_index(path) as reader:
        yield reader.backend


def sentences(backend, text):
    query = made.scope_query(backend, text, "hybrid", ANA)
    found = backend.memories(ANA, ["m1", "m2"])
    return found, quotable_sentences(query, [found["m1"], found["m2"]])


def test_a_word_of_few_sentences_counts_more_than_one_of_most(opened):
    memories, found = sentences(opened, "To whom was the wheel of the mill sold?")
    best = found["m1"].spans[int(np.argmax(found["m1"].worth))]
    assert memories["m1"].text[slice(*best)] == "The wheel was sold to Henk."
    assert found["m1"].worth.max() > found["m2"].worth.max()


def test_sentences_of_a_window_that_fits_are_worth_more_where_no_word_is_there(opened, monkeypatch):
    view = opened.view(ANA)
    windows = [np.array([0.1, 0.5]), np.array([0.1, 0.1])]
    monkeypatch.setattr(type(view), "window_cosines", lambda self, vector, rows: windows)
    _, found = sentences(opened, "Zyx?")
    assert found["m1"].worth[-1] > found["m1"].worth[0] == found["m2"].worth.max() == 0
    assert (np.diff(found["m1"].worth) >= 0).all()
    monkeypatch.setattr(type(view), "window_cosines", lambda self, vector, rows: None)
    _, found = sentences(opened, "Zyx?")
    assert found["m1"].worth.max() == 0


def test_cosines_of_windows_are_those_that_the_best_is_chosen_from(opened):
    view, vector = opened.view(ANA), embed_query("the mill", None)
    cosines = view.window_cosines(vector, rows_of(view.ids, ["m2", "m1"]))
    assert [c.max() for c in cosines] == pytest.approx(view.cosines(vector)[[1, 0]].tolist(), abs=1e-6)
    assert view.window_cosines(vector, np.zeros(0, np.int64)) == []


def test_sentences_that_were_read_before_are_not_read_again(opened, monkeypatch):
    view = opened.view(ANA)
    first = view.sentence_terms(np.array([1, 0]))
    monkeypatch.setattr(type(view), "_run", None)
    again = view.sentence_terms(np.array([0, 1]))
    assert list(first) == list(again) == [0, 1] and again[1].keys is first[1].keys
