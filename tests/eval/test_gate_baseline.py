import json
import math
from dataclasses import replace

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest_eval.gate.baseline import accept_baseline, changed_settings, current_user, load_baseline
from palimpsest_eval.gate.decide import decide
from palimpsest_eval.gate.verdict import combine
from tests.eval.gate_runs import FULL, LOST, gate_run


@pytest.mark.parametrize(
    "values",
    [{"R@5": 1.0, "nDCG@10": 1.0, "stale@5": 0.0}, FULL | {"R@5": math.nan}, LOST],
    ids=["gone", "nan", "zero"],
)
def test_a_baseline_without_a_usable_metric_fails(baseline, values):
    poor = replace(baseline, per_query=dict.fromkeys(baseline.per_query, values))
    got = decide(gate_run([FULL] * 100), poor, True)
    assert got.status == "failed"
    assert "palimpsest baseline accept" in "; ".join(got.reasons)


def test_missing_questions_fail_with_their_ids_and_so_do_those_without_evidence_or_too_few(baseline):
    new = gate_run([FULL] * 120)
    per_query = {q: v for q, v in new.per_query.items() if q >= "q010"} | {"q110": LOST}
    got = decide(gate_run([], per_query=per_query, answered=110), baseline, True)
    assert "20 new, 10 gone; compared 90 in both" in got.warnings[0]
    (reason,) = got.reasons
    assert reason.startswith("10 questions of the baseline not in the golden set: q000, q001, q002")
    assert "baseline accept" in reason
    assert decide(gate_run([FULL] * 120), baseline, True).status == "passed", "new ones alone are no loss"
    run = gate_run([FULL] * 100)
    per_query = {q: v for q, v in run.per_query.items() if q != "q007"}
    got = decide(replace(run, per_query=per_query, unanswerable={"q007": 0.0}), baseline, True)
    assert got.reasons[0].startswith("1 question of the baseline without evidence now: q007")
    per_query = {f"x{i}" if i < 60 else f"q{i:03}": FULL for i in range(100)}
    got = decide(gate_run([], per_query=per_query, answered=100), baseline, True)
    assert got.status == "failed"
    assert got.reasons[0].startswith("60 questions of the baseline not in the golden set")
    assert "only 40 questions" in got.reasons[1]
    assert "baseline accept" in got.reasons[1]


def test_changed_settings_are_named_with_what_they_broke(tmp_path):
    settings = {"weights.words": 0.8, "unit": "turn", "retention_days": None, "code.query": "a", "code.index": "x"}
    kept = accept_baseline(gate_run([FULL] * 100, build_settings=settings), tmp_path / "b.json", "as it is", who="t")
    assert load_baseline(tmp_path / "b.json").build_settings == settings
    now = settings | {"weights.words": 0.0, "retention_days": 30, "code.query": "b"}
    got = decide(gate_run([LOST] * 88 + [FULL] * 12, build_settings=now), kept, True)
    warning = "settings changed: notes.retention_days not set -> 30; notes.weights.words 0.8 -> 0"
    assert warning in got.warnings
    assert got.to_json()["settings_changed"][1] == {"name": "weights.words", "old": 0.8, "new": 0.0}
    assert "notes.weights.words 0.8 -> 0" in got.markdown()
    assert "Code changed since the baseline: query." in got.markdown()
    assert combine([got]).settings_changed == ["notes.retention_days not set -> 30", "notes.weights.words 0.8 -> 0"]


def test_a_baseline_from_before_settings_were_kept_names_none_and_an_unknown_setting_differs_from_its_default(
    tmp_path, baseline
):
    path = tmp_path / "b.json"
    raw = json.loads(path.read_text())
    del raw["build_settings"]
    path.write_text(json.dumps(raw))
    got = decide(gate_run([FULL] * 100, build_settings={"weights.words": 0.0}), load_baseline(path), True)
    assert (got.status, got.warnings, got.settings_changed) == ("passed", (), ())
    older, newer = {"unit": "turn"}, {"unit": "turn", "profile": "fast", "retention_days": None}
    assert changed_settings(older, newer) == ()
    assert [c.text("c") for c in changed_settings(older, newer | {"profile": "full"})] == ["c.profile fast -> full"]


def test_drafts_that_nobody_edited_and_what_makes_runs_hard_to_compare_are_warnings(baseline):
    got = decide(gate_run([FULL] * 100, drafts=("q001", "q002")), baseline, True)
    assert got.status == "passed"
    assert got.warnings[0].startswith("2 drafts of `gate --init` not edited: q001, q002")
    got = decide(gate_run([FULL] * 100, model="other", golden_hash="h", settings={"strategy": "flat"}), baseline, True)
    assert got.status == "passed"
    assert len(got.warnings) == 3


def test_an_accepted_baseline_records_who_when_and_why_and_reads_back(tmp_path, baseline):
    again = load_baseline(tmp_path / "b.json")
    assert again == baseline
    assert (again.accepted_by, again.accepted_at, again.why) == ("Ana", "2026-01-02T00:00:00+00:00", "first")
    assert (again.commit, again.model, again.golden_hash) == ("c1", "m", "g")
    assert [p.name for p in tmp_path.iterdir()] == ["b.json"]
    assert current_user()


@pytest.mark.parametrize(
    "run",
    [
        gate_run([]), gate_run([FULL], errors=("gone",)), gate_run([FULL], leaks=("leak",)),
        gate_run([FULL], answered=0), gate_run([FULL | {"R@5": math.nan}]),
    ],
)  # fmt: skip
def test_a_run_that_cannot_be_a_baseline_is_refused_and_the_old_one_stays(tmp_path, baseline, run):
    before = (tmp_path / "b.json").read_bytes()
    with pytest.raises(PalimpsestError):
        accept_baseline(run, tmp_path / "b.json", "try")
    with pytest.raises(PalimpsestError, match="--why"):
        accept_baseline(gate_run([FULL]), tmp_path / "b.json", "  ")
    assert (tmp_path / "b.json").read_bytes() == before


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 9}', '{"format": 1, "results": {}, "per_query": 3}'])
def test_a_damaged_baseline_is_an_error_that_names_the_fix(tmp_path, content):
    path = tmp_path / "b.json"
    path.write_text(content)
    with pytest.raises(PalimpsestError, match="baseline accept"):
        load_baseline(path)
    assert load_baseline(tmp_path / "none.json") is None
