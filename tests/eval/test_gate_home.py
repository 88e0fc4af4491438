import shutil
from dataclasses import replace

import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.pipeline.finish import stage_build
from palimpsest.pipeline.plan import make_plan
from palimpsest.query.reader import Reader
from palimpsest.store.builds import published
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest_eval.gate.baseline import build_settings
from palimpsest_eval.golden import retrieval_run
from palimpsest_eval.golden.questions import JUDGED_TABLES
from palimpsest_eval.runs import judge_build
from palimpsest_eval.runs.judge_build import (
    accept_home,
    compare_builds,
    find_violations,
    judge_home,
    next_steps,
    run_collection,
)


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
    markdown = got.markdown()
    assert " ✓: My locker code is quixotic-77." in markdown
    before, now = markdown.split("  - before:\n")[1].split("  - now:\n")
    assert "quixotic" in before and "quixotic" not in now and "The canteen closes at three." in now
    assert "My locker code is quixotic-77." in got.to_json()["collections"][0]["texts"].values()


def test_questions_of_a_collection_that_did_not_change_are_not_searched_again(judged_home, monkeypatch, capsys):
    build, decisions = published(judged_home), read_decisions(judged_home.decisions)
    tables = build.tables(JUDGED_TABLES)
    run = run_collection(build, "chats", tables, decisions, diagnose=True)
    monkeypatch.setattr(Reader, "search", None)  # a search fails
    assert run_collection(build, "chats", tables, decisions, True, run) == run
    assert f"nothing changed, no search again of its {len(run.questions)} questions" in capsys.readouterr().err
    with pytest.raises(TypeError):
        run_collection(build, "chats", tables, decisions, True, replace(run, key="of other tables"))
    monkeypatch.setenv("PALIMPSEST_MIN_RELEVANCE", "10")
    with pytest.raises(TypeError):
        run_collection(build, "chats", tables, decisions, True, run)


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


def test_the_gate_searches_the_timed_questions_again_and_all_where_one_gets_something_else(judged_home, monkeypatch):
    monkeypatch.setattr(retrieval_run, "TIMED", 1)
    accepted, recorded = accept_home(judged_home, "as it is")[0].path, published(judged_home)
    run = run_collection(recorded, "chats", recorded.tables(JUDGED_TABLES), read_decisions(judged_home.decisions), True)
    monkeypatch.setattr(judge_build, "_recorded_runs", lambda build: {"chats": run})
    searched, search, lost = [], Reader.search, set()

    def recording(self, text, scope, **filters):
        searched.append(text)
        found = search(self, text, scope, **filters)
        return replace(found, memories=[]) if text in lost else found

    monkeypatch.setattr(Reader, "search", recording)
    (got,) = judge_home(judged_home).collections
    first = next(iter(run.questions.values()))
    assert set(searched) == {first}, "it alone is timed"
    assert got.run == replace(
        run, latency_ms=got.latency_ms, unhindered_ms=got.run.unhindered_ms, steps_ms=got.run.steps_ms
    )
    assert got.latency_ms != run.latency_ms, "times are of now"
    lost.add(first)
    (got,) = judge_home(judged_home).collections
    accepted.unlink()
    assert set(searched) == set(run.questions.values()) and got.status == "failed"
