"""The study of texts made to be slow: the patterns that it finds, the texts, and that it ends what takes too long."""

import ast

import pytest

from tests.pathological_text.functions import FUNCTIONS, call
from tests.pathological_text.pattern_calls import calls_of_polars, calls_of_re, methods_of_names
from tests.pathological_text.patterns import FoundPattern
from tests.pathological_text.texts import SlowText, common_texts, texts_of_pattern
from tests.pathological_text.timings import Timing, Worker

RUN = SlowText("", "a", "!")


def test_a_text_has_its_head_end_and_size_and_repeats_what_its_pattern_repeats():
    text = SlowText("x", "ab-", "!").at_size(12)
    assert text == "xab-ab-ab-a!" and len(text) == 12
    assert SlowText("x", "ab-", "!").at_size(1) == "xab-!"
    made = texts_of_pattern(r"x(?:ab)+[0-9]*$", 0)
    assert made == texts_of_pattern.__wrapped__(r"x(?:ab)+[0-9]*$", 0)
    assert {SlowText("x", "ab", "!"), SlowText("", "ab", ""), SlowText("", "0", "\n!")} <= set(made)


def test_calls_are_found_with_their_patterns_flags_and_methods_and_names_by_their_uses():
    source = (
        'import re\nre.sub(_A + "b", "", t, flags=re.I)\nre.compile(rf"{_A}+")\n'
        'c.str.contains("x+")\nc.str.contains("y", literal=True)\n'
    )
    tree = ast.parse(source)
    calls = [(c.line, c.method, c.pattern, c.flags) for c in calls_of_re(tree, {"_A": "a"})]
    assert calls == [(2, "finditer", "ab", 2), (3, "compile", "a+", 0)]
    assert [(c.line, c.method, c.pattern) for c in calls_of_polars(tree, {})] == [(4, "search", "x+")]
    kept = ast.parse(
        "_A = 1\n_B = 2\n_C = (3,)\n_A.search(t)\n[m for m in _B.finditer(t)]\nf(_B)\nany(c.match(t) for c in _C)\n"
    )
    assert methods_of_names({"m": kept}) == {("m", "_A"): {"search"}, ("m", "_C"): {"match"}}


def test_a_pattern_that_takes_too_long_is_ended_and_the_next_text_is_tried():
    slow = FoundPattern("here", "(?:a|aa)+$", 0, False, "re", ("match",))
    with Worker(0.2) as worker:
        assert worker.seconds(slow, "match", [RUN, SlowText("", "b", "")], 60)[0] == float("inf")
        assert len(worker.seconds(slow, "match", [SlowText("", "b", "")], 60)) == 1


@pytest.mark.parametrize(
    ("small_s", "large_s", "is_slow"),
    [(0.1, 0.9, False), (0.1, 1.1, True), (0.01, 0.2, True), (0.0001, 0.05, False), (0.1, float("inf"), True)],
)
def test_slow_is_more_than_a_second_or_more_than_15_times_as_long(small_s, large_s, is_slow):
    assert Timing("here", "match", RUN, small_s, large_s).is_slow is is_slow


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("facts", "formation")])
def test_every_function_of_the_study_takes_every_text(name):
    for text in common_texts()[::11]:
        call(name, text.at_size(300))
