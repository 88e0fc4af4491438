import json
import math
import shutil
from dataclasses import replace
from datetime import UTC, datetime

import polars as pl
import pytest

from palimpsest.build.plan import make_plan
from palimpsest.build.publish import stage_build
from palimpsest.core.errors import PalimpsestError
from palimpsest.eval.gate.baseline import accept_baseline, current_user, load_baseline
from palimpsest.eval.gate.build_settings import build_settings, changed_settings
from palimpsest.eval.gate.decide import decide
from palimpsest.eval.gate.verdict import combine
from palimpsest.eval.gate.violations import Violation
from palimpsest.eval.golden.golden_run import GoldenRun, Hit
from palimpsest.eval.runs.accept_home import accept_home, next_steps
from palimpsest.eval.runs.compare_builds import compare_builds
from palimpsest.eval.runs.judge_build import find_violations, judge_home
from palimpsest.query.reader import Reader
from palimpsest.store.builds import published
from palimpsest.store.home import Home

FULL = {"R@5": 1.0, "nDCG@10": 1.0, "packed_recall": 1.0, "stale@5": 0.0}
LOST = {"R@5": 0.0, "nDCG@10": 0.0, "packed_recall": 0.0, "stale@5": 0.0}


def gate_run(values, p95=9.0, **more):
    """One query for each item of `values`, numbered."""
    per_query = {f"q{i:03}": dict(v) for i, v in enumerate(values)}
    given = {
        "collection": "notes",
        "golden_hash": "g",
        "model": "m",
        "commit": "c1",
        "build_id": "000002",
        "settings": {"strategy": "auto"},
        "per_query": per_query,
        "questions": {q: f"what of {q}?" for q in per_query},
        "results": {q: (Hit("new", "b.md:0-9"),) for q in per_query},
        "answered": len(per_query),
        "latency_ms": {"p50": 5.0, "p95": p95, "p99": p95},
    }
    return GoldenRun(**(given | more))


@pytest.fixture
def baseline(tmp_path):
    old = gate_run([FULL] * 100, build_id="000001", results={"q000": (Hit("old", "a.md:3-7", relevant=True),)})
    return accept_baseline(old, tmp_path / "b.json", "first", who="Ana", when=datetime(2026, 1, 2, tzinfo=UTC))


def test_an_unchanged_run_passes_and_reports_the_smallest_detectable_loss(baseline):
    got = decide(gate_run([FULL] * 100), baseline, True)
    assert (got.status, got.publishable, got.reasons, got.broken) == ("passed", True, (), ())
    assert got.smallest_loss == pytest.approx(0.05)
    assert combine([got]).exit_code == 0


def test_a_run_equal_but_for_its_last_digit_is_unchanged(baseline):
    odd = {m: v - 1e-8 if v else v for m, v in FULL.items()}
    got = decide(gate_run([odd] * 100), baseline, True)
    assert (got.status, got.broken) == ("passed", ())
    assert got.metrics["R@5"].p == 1.0
    assert "| R@5 | 1.000 | 1.000 | +0.000 | 1.0000 |" in got.markdown()


def test_a_significant_loss_fails_and_names_the_queries_with_old_and_new_results(baseline):
    got = decide(gate_run([LOST] * 6 + [FULL] * 94), baseline, True)
    assert got.status == "failed"
    assert not got.publishable
    assert got.reasons[0].startswith("R@5 fell from 1.000 to 0.940")
    assert [b.question_id for b in got.broken] == [f"q00{i}" for i in range(6)]
    assert got.broken[0].old_results[0].source == "a.md:3-7"
    assert got.broken[0].new_results[0].source == "b.md:0-9"


def test_a_loss_within_the_noise_passes_but_its_queries_are_named(baseline):
    got = decide(gate_run([LOST] * 2 + [FULL] * 98), baseline, True)
    assert got.status == "passed"
    assert [b.question_id for b in got.broken] == ["q000", "q001"]


@pytest.mark.parametrize("metric", ["R@5", "nDCG@10", "packed_recall"])
def test_each_gated_metric_closes_the_gate_alone(baseline, metric):
    got = decide(gate_run([FULL | {metric: 0.0}] * 10 + [FULL] * 90), baseline, True)
    assert [r.split(" ")[0] for r in got.reasons] == [metric]


def test_each_type_of_question_is_shown_before_and_now_with_who_accepted_the_baseline(baseline):
    types = {f"q{i:03}": "dates" if i < 10 else "names" for i in range(100)}
    got = decide(gate_run([LOST] * 6 + [FULL] * 94, types=types), baseline, True)
    told = got.to_json()["by_type"]
    assert told["dates"]["new"]["R@5"] == pytest.approx(0.4) and told["dates"]["old"]["R@5"] == 1.0
    assert told["names"]["new"] == {"queries": 90, "R@5": 1.0, "nDCG@10": 1.0, "packed_recall": 1.0, "stale@5": 0.0}
    markdown = got.markdown()
    assert "| dates | 10 | 1.000 → 0.400 | 1.000 → 0.400 | 1.000 → 0.400 | 0.000 → 0.000 |" in markdown
    assert "Baseline: build 000001 at commit c1, accepted by Ana on 2026-01-02T00:00:00+00:00: first" in markdown
    assert got.to_json()["baseline"]["why"] == "first"


def test_any_rise_of_stale_results_fails(baseline):
    got = decide(gate_run([FULL | {"stale@5": 0.2}] + [FULL] * 99), baseline, True)
    assert got.status == "failed"
    assert got.reasons[0].startswith("stale@5 rose from 0.000 to 0.002")
    assert [b.question_id for b in got.broken] == ["q000"]


def test_a_part_of_the_ranking_that_falls_silent_fails_though_recall_holds(baseline, tmp_path):
    silent, heard = FULL | {"words_signal": 0.0}, FULL | {"words_signal": 1.0}
    scored = accept_baseline(gate_run([heard] * 100), tmp_path / "b.json", "with signals", who="test")
    assert decide(gate_run([heard] * 100), scored, True).status == "passed"
    got = decide(gate_run([silent] * 100), scored, True)
    assert got.reasons == ("words_signal fell from 1.000 to 0.000: a part of the ranking no longer scores",)
    assert decide(gate_run([silent] * 100), baseline, True).status == "passed", "an older baseline does not know it"


def test_fewer_results_than_came_before_fail_though_recall_holds(tmp_path):
    full, half = FULL | {"filled@10": 1.0}, FULL | {"filled@10": 0.5}
    known = accept_baseline(gate_run([full] * 100), tmp_path / "b.json", "all ten came", who="test")
    assert decide(gate_run([full] * 100), known, True).status == "passed"
    got = decide(gate_run([half] * 100), known, True)
    assert got.reasons == ("filled@10 fell from 1.000 to 0.500: fewer results come than did",)


def test_an_answer_retired_though_it_is_still_true_fails_and_is_named(baseline, tmp_path):
    held, gone = FULL | {"retired": 0.0}, FULL | {"retired": 1.0}
    known = accept_baseline(gate_run([held] * 99 + [gone]), tmp_path / "b.json", "one is known", who="test")
    assert decide(gate_run([held] * 99 + [gone]), known, True).status == "passed"
    got = decide(gate_run([gone, *[held] * 99]), known, True)
    assert got.reasons == ("1 answers that are still true were retired since the baseline: q000",)
    assert decide(gate_run([gone] * 100), baseline, True).status == "passed", "an older baseline does not know it"


def test_without_a_golden_set_only_the_invariants_are_judged_and_the_command_exits_1():
    got = decide(GoldenRun("notes"), None, False)
    assert (got.status, got.publishable) == ("unjudged", True)
    assert "data/golden/notes.jsonl" in got.warnings[0]
    assert combine([got]).exit_code == 1
    broken = decide(GoldenRun("notes"), None, False, [Violation(3, "scopes", "2 ids", 2, ("m1",))])
    assert (broken.status, broken.publishable) == ("failed", False)
    assert broken.reasons == ("invariant 3 (scopes): 2 ids: m1",)


def test_a_golden_set_without_a_baseline_is_not_published_and_names_the_command():
    got = decide(gate_run([FULL] * 3), None, True)
    assert (got.status, got.publishable) == ("failed", False)
    assert "palimpsest baseline accept" in got.reasons[0]
    assert got.means["R@5"] == 1.0, "the figures are there to look at"
    assert combine([got]).exit_code == 1


def test_latency_is_judged_by_the_absolute_budget_only(baseline):
    assert decide(gate_run([FULL] * 100, p95=399.0), baseline, True).status == "passed"
    slow = decide(gate_run([FULL] * 100, p95=401.0), baseline, True)
    assert slow.status == "failed"
    assert "p95 401 ms is over the budget of 400 ms" in slow.reasons[0]
    warned = decide(gate_run([FULL] * 100, p95=41.0), baseline, True)
    assert warned.status == "passed"
    assert "41 ms" in warned.warnings[0]


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (gate_run([]), "no judged query"),
        (gate_run([LOST] * 100, answered=0), "no judged query was answered"),
        (gate_run([FULL] * 99 + [FULL | {"R@5": math.nan}]), "not a number"),
        (gate_run([{k: v for k, v in FULL.items() if k != "packed_recall"}] * 100), "the run has no packed_recall"),
        (gate_run([FULL] * 100, p95=math.nan), "p95 was not measured"),
        (gate_run([FULL] * 100, latency_ms={}), "p95 was not measured"),
        (gate_run([FULL] * 100, leaks=("question 'q1': memory m6 belongs to notes/ben",)), "belongs to notes/ben"),
        (gate_run([], errors=("golden set of notes: question 'q9': gone",)), "question 'q9'"),
    ],
)
def test_a_gate_cannot_pass_by_accident(baseline, run, says):
    got = decide(run, baseline, True)
    assert got.status == "failed"
    assert says in "; ".join(got.reasons)


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


def test_a_violated_invariant_fails_a_run_that_lost_nothing(baseline):
    got = decide(gate_run([FULL] * 100), baseline, True, [Violation(8, "spans", "1 span", 1, ("m1",))])
    assert got.status == "failed"


def test_new_questions_are_excluded_and_reported_and_missing_ones_fail_with_their_ids(baseline):
    new = gate_run([FULL] * 120)
    per_query = {q: v for q, v in new.per_query.items() if q >= "q010"} | {"q110": LOST}
    got = decide(gate_run([], per_query=per_query, answered=110), baseline, True)
    assert "20 new, 10 gone; compared 90 in both" in got.warnings[0]
    (reason,) = got.reasons
    assert reason.startswith("10 questions of the baseline not in the golden set: q000, q001, q002")
    assert "baseline accept" in reason
    assert decide(gate_run([FULL] * 120), baseline, True).status == "passed", "new ones alone are no loss"


def test_a_question_whose_evidence_was_removed_fails_too(baseline):
    run = gate_run([FULL] * 100)
    per_query = {q: v for q, v in run.per_query.items() if q != "q007"}
    got = decide(replace(run, per_query=per_query, unanswerable={"q007": 0.0}), baseline, True)
    assert got.reasons[0].startswith("1 question of the baseline without evidence now: q007")


def test_changed_settings_are_named_with_what_they_broke(tmp_path):
    settings = {"weights.words": 0.8, "unit": "turn", "retention_days": None, "code.query": "a", "code.index": "x"}
    kept = accept_baseline(gate_run([FULL] * 100, build_settings=settings), tmp_path / "b.json", "as it is", who="t")
    assert load_baseline(tmp_path / "b.json").build_settings == settings
    now = settings | {"weights.words": 0.0, "retention_days": 30, "code.query": "b"}
    got = decide(gate_run([LOST] * 88 + [FULL] * 12, build_settings=now), kept, True)
    told = "settings changed: notes.retention_days not set -> 30; notes.weights.words 0.8 -> 0"
    assert told in got.warnings
    assert got.to_json()["settings_changed"][1] == {"name": "weights.words", "old": 0.8, "new": 0.0}
    assert "notes.weights.words 0.8 -> 0" in got.markdown()
    assert "Code changed since the baseline: query." in got.markdown()
    assert combine([got]).settings_changed == ["notes.retention_days not set -> 30", "notes.weights.words 0.8 -> 0"]


def test_a_baseline_from_before_settings_were_kept_still_reads_and_names_none(tmp_path, baseline):
    path = tmp_path / "b.json"
    raw = json.loads(path.read_text())
    del raw["build_settings"]
    path.write_text(json.dumps(raw))
    got = decide(gate_run([FULL] * 100, build_settings={"weights.words": 0.0}), load_baseline(path), True)
    assert (got.status, got.warnings, got.settings_changed) == ("passed", (), ())


def test_a_setting_that_one_version_does_not_know_differs_only_from_its_default():
    older, newer = {"unit": "turn"}, {"unit": "turn", "profile": "fast", "retention_days": None}
    assert changed_settings(older, newer) == ()
    assert [c.text("c") for c in changed_settings(older, newer | {"profile": "full"})] == ["c.profile fast -> full"]


def test_drafts_that_nobody_edited_are_named(baseline):
    got = decide(gate_run([FULL] * 100, drafts=("q001", "q002")), baseline, True)
    assert got.status == "passed"
    assert got.warnings[0].startswith("2 drafts of `gate --init` not edited: q001, q002")


def test_too_few_questions_in_both_fail(baseline):
    per_query = {f"x{i}" if i < 60 else f"q{i:03}": FULL for i in range(100)}
    got = decide(gate_run([], per_query=per_query, answered=100), baseline, True)
    assert got.status == "failed"
    assert got.reasons[0].startswith("60 questions of the baseline not in the golden set")
    assert "only 40 questions" in got.reasons[1]
    assert "baseline accept" in got.reasons[1]


def test_what_makes_runs_hard_to_compare_is_a_warning(baseline):
    got = decide(gate_run([FULL] * 100, model="other", golden_hash="h", settings={"strategy": "flat"}), baseline, True)
    assert got.status == "passed"
    assert len(got.warnings) == 3


def test_a_home_fails_with_any_collection_and_is_unjudged_with_any(baseline):
    good, bare = decide(gate_run([FULL] * 100), baseline, True), decide(GoldenRun("bare"), None, False)
    bad = decide(gate_run([FULL]), None, True)
    assert (combine([good, bare]).status, combine([good, bare]).exit_code) == ("unjudged", 1)
    assert combine([good, bare, bad]).status == "failed"
    assert combine([]).status == "failed"


def test_the_decision_is_json_and_markdown_for_a_pull_request(baseline):
    run = gate_run([LOST] * 30 + [FULL] * 70)
    run = gate_run([LOST] * 30 + [FULL] * 70, questions=run.questions | {"q000": "what | of <b>\n# it?"})
    got = decide(run, baseline, True)
    told = json.loads(json.dumps(combine([got]).to_json(), allow_nan=False))
    assert told["status"] == "failed"
    assert told["collections"][0]["metrics"]["R@5"]["difference"] == pytest.approx(-0.3)
    assert told["collections"][0]["broken"][0]["old_results"][0]["source"] == "a.md:3-7"
    text = got.markdown()
    assert text.startswith("## ❌ Gate failed: notes")
    assert "| R@5 | 1.000 | 0.700 | -0.300 |" in text
    assert "what \\| of \\<b\\> \\# it?" in text
    assert "before: `a.md:3-7` ✓" in text
    assert "and 10 more" in text


def test_an_accepted_baseline_records_who_when_and_why_and_reads_back(tmp_path, baseline):
    again = load_baseline(tmp_path / "b.json")
    assert again == baseline
    assert (again.accepted_by, again.accepted_at, again.why) == ("Ana", "2026-01-02T00:00:00+00:00", "first")
    assert (again.commit, again.model, again.golden_hash) == ("c1", "m", "g")
    assert [p.name for p in tmp_path.iterdir()] == ["b.json"]


@pytest.mark.parametrize(
    "run",
    [
        gate_run([]),
        gate_run([FULL], errors=("gone",)),
        gate_run([FULL], leaks=("leak",)),
        gate_run([FULL], answered=0),
        gate_run([FULL | {"R@5": math.nan}]),
    ],
)
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


def test_someone_is_always_named():
    assert current_user()


def test_a_named_baseline_judges_its_own_collection_and_must_be_there(judged_home, tmp_path):
    (accepted,) = accept_home(judged_home, "as it is")
    aside = accepted.path.rename(tmp_path / "mine.json")
    assert judge_home(judged_home).status == "failed", "none is committed"
    got = judge_home(judged_home, aside)
    assert (got.status, got.collections[0].against["why"]) == ("passed", "as it is")
    with pytest.raises(PalimpsestError, match="no such file"):
        judge_home(judged_home, tmp_path / "nowhere.json")
    aside.write_text(aside.read_text().replace('"collection": "chats"', '"collection": "other"'))
    with pytest.raises(PalimpsestError, match="of collection 'other', the build has chats"):
        judge_home(judged_home, aside)


def test_a_broken_question_shows_the_first_words_of_its_results_before_and_now(judged_home, monkeypatch):
    (accepted,) = accept_home(judged_home, "as it is")
    search = Reader.search

    def only_the_last(self, text, scope, **filters):
        found = search(self, text, scope, **filters)
        return replace(found, memories=found.memories[-1:] if "locker" in text else found.memories)

    monkeypatch.setattr(Reader, "search", only_the_last)
    got = judge_home(judged_home)
    accepted.path.unlink()
    assert [b.question_id for b in got.collections[0].broken] == ["q-locker"]
    told = got.markdown()
    assert " ✓: My locker code is quixotic-77." in told
    before, now = told.split("  - before:\n")[1].split("  - now:\n")
    assert "quixotic" in before and "quixotic" not in now and "The canteen closes at three." in now
    assert "My locker code is quixotic-77." in got.to_json()["collections"][0]["texts"].values()


def test_tables_changed_behind_a_builds_back_close_the_gate(judged_home, tmp_path):
    home = Home(shutil.copytree(judged_home.path, tmp_path / "home"), judged_home.embeddings)
    build = published(home)
    assert find_violations(home, build) == []
    table = next(build.path.rglob("topics.parquet"))
    changed = pl.read_parquet(table).with_columns(label=pl.lit("edited"))
    table.unlink()  # a hard link of another build's
    changed.write_parquet(table)
    got = judge_home(home)
    assert got.status == "failed" and any("invariant 1 (digest)" in r for r in got.collections[0].reasons)


def test_a_build_records_its_settings_as_they_took_effect(judged_home):
    found = build_settings(published(judged_home).manifest, "chats")
    assert (found["unit"], found["user_id"], found["limits.max_pages"]) == ("turn", "ann", 2000)
    assert (found["strategy"], found["weights.words"], found["weights.recency"]) == ("turns", 0.8, 0.0)
    assert found["embedder"] and found["labeler"].startswith("offline ") and found["code.query"]
    assert "description" not in found


def test_a_weight_of_zero_is_named_by_gate_and_compare_and_by_the_verdict_of_the_build(judged_home, tmp_path):
    (accepted,) = accept_home(judged_home, "as it is")
    home = Home(shutil.copytree(judged_home.path, tmp_path / "home"), judged_home.embeddings)
    shutil.copytree(judged_home.path.parent / "corpus", tmp_path / "corpus")
    with (tmp_path / "corpus/chats/collection.yaml").open("a") as f:
        f.write("weights: {words: 0}\n")
    stage_build(home, make_plan(home, [tmp_path / "corpus"]))
    verdict = judge_home(home)
    accepted.path.unlink()
    assert verdict.settings_changed == ["chats.weights.words 0.8 -> 0"]
    found, text = compare_builds(home, "1", "2")
    assert found["settings"]["changed"][0]["text"] == "chats.weights.words 0.8 -> 0"
    assert text.startswith("settings changed: chats.weights.words 0.8 -> 0\n")


def test_accepting_names_the_questions_it_drops_and_says_what_to_do_next(judged_home):
    golden = judged_home.path.parent / "data/golden/chats.jsonl"
    before = golden.read_text()
    accept_home(judged_home, "all of them")
    golden.write_text("".join(line for line in before.splitlines(True) if "q-tea" not in line and "q-none" not in line))
    try:
        (reason,) = judge_home(judged_home).collections[0].reasons
        assert reason.startswith("2 questions of the baseline not in the golden set: q-none, q-tea")
        (accepted,) = accept_home(judged_home, "tea is no question")
        assert accepted.dropped == ("q-none", "q-tea")
        assert "without 2 questions of the one before: q-none, q-tea" in accepted.text()
        assert judge_home(judged_home).status == "passed"
        steps = next_steps(judged_home, [accepted])
        assert "git add data/baselines/chats.json" in steps
    finally:
        golden.write_text(before)
        accepted.path.unlink()
