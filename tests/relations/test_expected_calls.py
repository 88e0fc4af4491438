"""How many LM calls a dry run expects."""

import polars as pl
import pytest

from palimpsest.relations.labelers import choose_labeler as choose
from palimpsest.store.home import Home


@pytest.fixture
def expect_calls(monkeypatch, tmp_path):
    """Expects calls with the program `now`, at 1 for a million tokens in and 2 out."""

    class Labeler:
        program_hash = "now"

    monkeypatch.setattr(choose, "build_labeler", lambda home: Labeler())
    monkeypatch.setenv("PALIMPSEST_LM", "m@http://127.0.0.1:1/v1")
    monkeypatch.setenv("PALIMPSEST_LM_PRICE", "1,2")

    def relations(programs):
        return pl.DataFrame({"program_hash": list(programs), "newer_id": [f"m{i // 2}" for i in range(len(programs))]})

    def expect(name, new, programs=()):
        monkeypatch.setenv("PALIMPSEST_LABELER", name)
        return choose.expected_calls(Home(tmp_path), new, relations(programs))

    return expect


def test_calls_are_expected_for_new_memories_and_those_with_labels_of_another_program(expect_calls):
    assert expect_calls("offline", 100, ["old"] * 10) == (0, 0.0)
    calls, money = expect_calls("dspy", 5, ["now", "old", "old", "person"])
    assert calls == 7 and money == pytest.approx(7 * (1200 * 1 + 120 * 2) / 1e6)
    assert expect_calls("cascade", 10, ["old"] * 10)[0] == 10
