"""The offline labeler: which candidate a memory ends, in part or as a whole, and what follows for both."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.relations.labelers.calibration import (
    Calibration,
    Lines,
    configured_lines,
    shipped_calibration,
    softmax_with_none,
)
from palimpsest.relations.labelers.change_encoder import (
    CHOOSER_FILE,
    JUDGE_FILE,
    PAIR_CLASSES,
    ChangeEncoder,
    ChangeQuestion,
    ChangeReading,
    Statement,
    build_input,
    focus,
    gap_words,
    outdated_part,
    shipped_encoder,
)
from palimpsest.relations.labelers.choose_labeler import CascadeLabeler
from palimpsest.relations.labelers.label_types import LabelPair, LabelResult
from palimpsest.relations.labelers.offline_labeler import OfflineLabeler, offline_labeler, shipped_key
from palimpsest.text.tokenizer import tokenizer
from tests.memories.frames import day

LINES = Lines(superseded=0.8, disputed=0.4)
CALIBRATION = Calibration((1.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0), 0.0, {"balanced": LINES, "eager": Lines(0.6, 0.3)})


class Scores:
    """An encoder of the test's own: a score for each older text, and words that it reads as outdated."""

    key = "test"

    def __init__(self, scores, classes=None, outdated=()):
        self.scores, self.classes, self.outdated, self.questions = scores, classes or {}, outdated, []

    def read(self, questions, advance=lambda n: None):
        self.questions += [[o.text for o in q.older] for q in questions]
        return [self._one([o.text for o in q.older]) for q in questions]

    def _one(self, texts):
        logs = np.full((len(texts), len(PAIR_CLASSES)), np.log(0.01))
        for row, text in enumerate(texts):
            logs[row, PAIR_CLASSES.index(self.classes.get(text, "none"))] = np.log(0.95)
        words = [
            [((at, at + len(w)), float(w in self.outdated)) for w in text.split() for at in [text.find(w)]]
            for text in texts
        ]
        scores = np.array([self.scores.get(t, -9.0) for t in texts])
        return ChangeReading(scores, logs, words, np.zeros((len(texts), 4)))


def labels(chooser, pairs, judge=None, odds=1.0, calibration=CALIBRATION):
    return OfflineLabeler(chooser, judge or chooser, calibration, LINES, odds).label(pairs)


def candidates(*olders, newer="new", **more):
    return [LabelPair("n", f"o{i}", newer, older, **more) for i, older in enumerate(olders)]


def test_of_several_candidates_only_the_likeliest_is_superseded_and_what_was_said_twice_ends_twice():
    got = labels(Scores({"a": 6.0, "b": 3.8, "c": -5.0}), candidates("a", "b", "c"))
    assert [r.label for r in got] == ["UPDATE", "NONE", "NONE"]
    assert [r.consequence for r in got] == ["superseded", None, None]
    assert [r.likelihood for r in got] == pytest.approx([0.898, 0.1, 0.0], abs=1e-3)
    got = labels(Scores({"a": 3.0, "A": 3.0, "b": 0.0}), candidates("a", "b", "A"))
    assert [r.consequence for r in got] == ["superseded", None, "superseded"]


def test_what_a_rule_finds_raises_the_probability_and_names_the_part():
    olders = ("The limit is 30 days.", "The price is 8 euros. Drinks are free on Mondays.")
    pairs = candidates(*olders, newer="The price is now 12 euros.")
    encoder = Scores(dict.fromkeys(olders, 0.0))
    weighed = replace(CALIBRATION, rule=3.0)
    without, with_rules = (labels(encoder, pairs, calibration=c) for c in (CALIBRATION, weighed))
    assert [r.consequence for r in without] == [None, None]
    assert [r.consequence for r in with_rules] == [None, "superseded"]
    assert with_rules[1].part == ((0, 21),) and with_rules[1].evidence["rule"] == "slot:price"
    unlikely = labels(Scores({}), pairs, calibration=weighed)
    assert [r.label for r in unlikely] == ["NONE", "NONE"]


def test_the_judge_reads_the_likeliest_candidates_alone_and_counts_by_its_weights():
    chooser, judge = Scores({"a": 2.0, "b": 1.0, "c": -6.0, "d": -7.0}), Scores({})
    pairs = [*candidates("a", "d", "b"), LabelPair("m", "o9", "newest", "c")]
    assert len(labels(chooser, pairs, judge)) == 4
    assert chooser.questions == [["a", "d", "b"], ["c"]] and judge.questions == [["a", "b"]]
    weighed = replace(CALIBRATION, judge=(0.5, 1.0, 0.0, 0.0))
    chooser, pairs = Scores({"a": 1.0, "b": 0.5}), candidates("a", "b")
    of_second = labels(chooser, pairs, Scores({"a": -3.0, "b": 3.0}), calibration=weighed)
    assert [r.consequence for r in of_second] == [None, "superseded"]
    doubtful = labels(chooser, pairs, Scores({"a": -3.0, "b": -3.0}, {"b": "extend"}), calibration=weighed)
    assert [(r.consequence, r.label) for r in doubtful] == [(None, "NONE"), (None, "EXTEND")]


@pytest.mark.parametrize(("score", "consequence"), [(3.0, "superseded"), (0.5, "disputed"), (-2.0, None)])
def test_between_the_lines_both_stay_and_the_newer_disputes_the_older(score, consequence):
    (got,) = labels(Scores({"a": score}), candidates("a"))
    assert got.consequence == consequence
    assert (got.label == "UPDATE") == (consequence == "superseded")
    assert got.decided == (consequence != "disputed")


def test_a_pair_that_may_well_be_an_update_is_not_certain_and_what_is_earlier_or_the_same_ends_nothing():
    earlier = candidates("a", newer_at=day(1), older_at=day(2))
    same = candidates("Tea at FOUR.", newer="tea at four.")
    assert labels(Scores({"a": 9.0}), earlier)[0].label != "UPDATE"
    assert labels(Scores({"Tea at FOUR.": 9.0}), same)[0].evidence["rule"] == "same text"
    (got,) = labels(Scores({"a": -0.5}), candidates("a"))
    assert got.label == "NONE" and got.likelihood == pytest.approx(0.378) and got.confidence < 0.65


def test_the_rest_of_the_classes_gives_the_other_labels():
    classes = {"a": "extend", "b": "derive", "c": "conditional", "d": "static"}
    got = labels(Scores(dict.fromkeys("abcd", -9.0), classes), candidates(*"abcd"))
    assert [r.label for r in got] == ["EXTEND", "DERIVE", "EXTEND", "NONE"]
    assert [r.conflict for r in got] == ["", "", "conditional", ""]
    rare = labels(Scores({"a": -9.0}, {"a": "extend"}), candidates("a"), odds=1000.0)
    assert [r.label for r in rare] == ["NONE"]


def test_only_the_clauses_that_are_outdated_are_the_part_else_the_likeliest():
    older = "I live in Lisbon and I work at Acme as a data engineer."
    encoder = Scores({older: 5.0}, outdated=("work", "at", "Acme", "as", "a", "data", "engineer."))
    (got,) = labels(encoder, candidates(older))
    assert [older[a:b] for a, b in got.part] == ["and I work at Acme as a data engineer."]
    everything = Scores({older: 5.0}, outdated=older.split())
    assert labels(everything, candidates(older))[0].part == ()
    words = [((0, 3), 0.1), ((16, 20), 0.3)]
    assert outdated_part("Two small cats, one big dog.", words) == ((16, 28),)
    assert outdated_part("Two cats, one big dog.", [((0, 3), 0.1), ((10, 14), 0.3)]) == ()  # no rest of two words
    assert outdated_part("One clause alone.", [((0, 3), 0.1)]) == ()


def test_probabilities_add_up_to_one_and_the_program_changes_with_odds_lines_and_weights():
    p = softmax_with_none(np.array([2.0, -1.0, 700.0]))
    assert p.sum() == pytest.approx(1.0) and p[2] == pytest.approx(1.0)
    assert softmax_with_none(np.array([0.0])) == pytest.approx([0.5])
    one = OfflineLabeler(Scores({}), Scores({}), CALIBRATION, LINES)
    assert one.program_hash == replace(one, chooser=Scores({})).program_hash
    others = [
        replace(one, none_odds=2.0),
        replace(one, lines=Lines(0.9, 0.4)),
        replace(one, calibration=replace(CALIBRATION, chooser=(1.0, 0.0, 0.1))),
    ]
    assert len({one.program_hash, *(other.program_hash for other in others)}) == 4


@pytest.mark.parametrize("file", [CHOOSER_FILE, JUDGE_FILE])
def test_what_is_read_of_one_input_does_not_depend_on_others(file):
    encoder = shipped_encoder(file)
    olders = ("I live in Lisbon.", "We have two cats and a dog.", "The rent is 900 euros a month.")
    questions = [
        ChangeQuestion(Statement(newer), [Statement(o) for o in olders[: 1 + n]])
        for n, newer in enumerate(("I moved to Porto.", "The dog died in May.", "Rent went up to 950."))
    ]
    alone = [encoder.read([question])[0] for question in questions]
    for one, other in zip(encoder.read(questions * 5), alone * 5, strict=True):
        assert np.array_equal(one.scores, other.scores) and np.array_equal(one.features, other.features)
        assert one.outdated == other.outdated
    assert np.exp(alone[2].classes).sum(1) == pytest.approx([1.0] * 3, abs=1e-4)
    assert alone[2].features.shape[0] == 3 and encoder.read([]) == []


def test_a_damaged_graph_is_named(tmp_path):
    question = ChangeQuestion(Statement("a"), [Statement("b")])
    (tmp_path / "x.onnx").write_bytes(b"no graph")
    with pytest.raises(ComponentFailed, match="not an ONNX model"):
        ChangeEncoder(tmp_path / "x.onnx").read([question])
    (tmp_path / "x.onnx.gz").write_bytes(b"no gzip")
    with pytest.raises(ComponentFailed, match="cannot be read"):
        ChangeEncoder(tmp_path / "x.onnx.gz").read([question])
    with pytest.raises(ComponentFailed, match="cannot be read"):
        _ = ChangeEncoder(tmp_path / "none.onnx").key


def test_the_model_of_a_cascade_decides_what_may_be_a_change():
    class Model:
        name, program_hash, reads_together = "dspy", "m", True

        def label(self, pairs):
            self.read = [p.older for p in pairs]
            return [LabelResult("EXTEND", 1.0) for _ in pairs]

    def labelled(scores):
        model = Model()
        got = CascadeLabeler(OfflineLabeler(Scores(scores), Scores(scores), CALIBRATION, LINES), model)
        return [r.labeler for r in got.label(candidates(*scores))], model.read

    assert labelled({"a": -1.2, "b": -1.5, "e": -19.0}) == (["", "", "offline"], ["a", "b"])
    assert labelled({"a": -9.0, "b": -9.0}) == (["offline", "offline"], []), "no change is likely"


def test_levels_of_consequences_are_a_setting_and_the_shipped_ones_rise_with_care(monkeypatch):
    assert configured_lines(CALIBRATION) == LINES
    before = shipped_key()
    monkeypatch.setenv("PALIMPSEST_CHANGES", "eager")
    assert configured_lines(CALIBRATION) == Lines(0.6, 0.3) and shipped_key() != before
    monkeypatch.setenv("PALIMPSEST_CHANGES", "bold")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_CHANGES: 'bold' must be one of balanced, eager"):
        configured_lines(CALIBRATION)
    found = shipped_calibration()
    assert Calibration.from_json(json.loads(found.to_json())) == found
    for careful, eager in itertools.pairwise(found.lines[level] for level in ("careful", "balanced", "eager")):
        assert careful.superseded >= eager.superseded and careful.disputed >= eager.disputed
    assert all(line.disputed <= line.superseded for line in found.lines.values())


def test_an_input_has_the_newer_statement_then_each_older_one_and_of_a_long_text_its_sentences():
    newer = Statement("I moved to Porto.", "Sam", day(30))
    older = [Statement("I live in Lisbon.", "Sam", day(1)), Statement("I own a boat.", "", None)]
    given = build_input(tokenizer(), newer, older)
    text = tokenizer().decode(given.ids, skip_special_tokens=False)
    assert text == (
        "[CLS] sam : i moved to porto. [SEP] ( 4 weeks before ) sam : i live in lisbon. [SEP] i own a boat. [SEP]"
    )
    slot = given.slots[0]
    words = [older[0].text[a:b] for a, b in slot.chars if a >= 0]
    assert words == ["I", "live", "in", "Lisbon", "."] and given.pools()[0].sum(1) == pytest.approx([1.0, 1.0])
    text = " ".join(["The weather was fine that day."] * 40 + ["Rent is 900 euros a month."] + ["We had soup."] * 40)
    start, part = focus(text, ["The rent went up by 50 euros."], 20)
    assert "Rent is 900" in part and text[start : start + len(part)] == part and len(part) <= 120


@pytest.mark.parametrize(
    ("days", "words"),
    [(-3, "same day"), (0, "same day"), (1, "a day before"), (9, "9 days before"), (31, "4 weeks before")],
)
def test_ages_are_said_in_words(days, words):
    assert gap_words(days) == words
    assert (gap_words(200), gap_words(1000)) == ("7 months before", "3 years before")


@pytest.mark.parametrize("text", ["", " ", "?", "\n\n", "{laugh}", "# " * 50, "é" * 500, "word " * 4000])
def test_odd_texts_break_nothing(text):
    pairs = [LabelPair("n", "o", "The deadline is 9 May.", text), LabelPair("m", "o", text, "The deadline is 9 May.")]
    assert [r.label for r in offline_labeler().label(pairs)] == ["NONE", "NONE"]


def test_the_shipped_labeler_finds_a_plain_change_among_other_notes():
    olders = ("We rent a flat in Lisbon.", "I own a boat.", "My sister lives in Berlin.", "I work at Acme.")
    pairs = [
        LabelPair("n", f"o{i}", "I moved to Porto last month.", older, day(60), day(1))
        for i, older in enumerate(olders)
    ]
    got = offline_labeler().label(pairs)
    assert int(np.argmax([r.likelihood for r in got])) == 0
