"""The study of less trusted sources: it reads no test pairs, and counts what was retired and what review lists."""

import json

import pytest

from palimpsest_eval.studies import low_trust
from tests.command import last_json, run

PAIRS = [
    {
        "id": "a",
        "older": "The deadline of project Heron is 12 March.",
        "newer": "The deadline of project Heron is now 20 April.",
        "older_date": None,
        "newer_date": None,
    },
    {
        "id": "b",
        "older": "The canteen closes at three.",
        "newer": "The canteen now closes at four instead of three.",
        "older_date": "2025-01-01",
        "newer_date": "2025-02-01",
    },
]


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    monkeypatch.setattr(low_trust, "_run_palimpsest", lambda *args: last_json(run(*args, "--json")))


@pytest.mark.slow
def test_updates_by_a_less_trusted_speaker_are_proposed_and_retired_only_without_trust(tmp_path):
    found = low_trust.measure_low_trust(tmp_path, PAIRS)
    assert (found.pairs, found.compared, found.retired, found.proposed) == (2, 2, 0, 2)
    assert found.reasons == {"low trust": 2} and found.retired_at_equal_trust == 2


def test_the_pairs_are_of_one_split_and_always_the_same():
    updates = low_trust.select_pairs("train", 40, label="UPDATE")
    static = low_trust.select_pairs("train", 40, conflict="static")
    assert len(updates) == len(static) == 40 and updates == low_trust.select_pairs("train", 40, label="UPDATE")
    assert {p["split"] for p in updates + static} == {"train"}
    assert len({p["domain"] for p in updates}) > 10
    assert {p["split"] for p in low_trust.select_pairs("test", 10, label="UPDATE")} == {"test"}


def test_a_pair_without_dates_gets_two_days(tmp_path):
    low_trust.write_corpus(tmp_path, PAIRS, "Untrusted", "")
    turns = [json.loads(line) for line in (tmp_path / "trust_study/turns.jsonl").read_text().splitlines()]
    days = [t["timestamp"] for t in turns]
    assert days == ["2026-01-01", "2026-01-31", "2025-01-01", "2025-02-01"]
    assert [t["speaker"] for t in turns] == ["Trusted", "Untrusted"] * 2
