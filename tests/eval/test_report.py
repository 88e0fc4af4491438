import json
import re
import shutil
from dataclasses import replace

import pytest

from palimpsest.core.files import write_json
from palimpsest.query.reader import open_index
from palimpsest.store.builds import published
from palimpsest.store.home import Home, data_folder
from palimpsest_eval.gate.decide import decide
from palimpsest_eval.gate.verdict import combine
from palimpsest_eval.golden.golden_run import GoldenRun, Hit, search_golden
from palimpsest_eval.golden.misses import find_misses
from palimpsest_eval.golden.questions import JUDGED_TABLES, GoldenSet, golden_path, load_golden
from palimpsest_eval.labels.saved_programs import home_programs
from palimpsest_eval.report import gather, picture_html, report_html
from palimpsest_eval.report.charts import spark
from palimpsest_eval.report.gather import headlines
from palimpsest_eval.report.page import MAX_BYTES, Note, write_note
from palimpsest_eval.runs.judge_build import judge_build, write_report

NASTY = '</style><script>alert(1)</script><img src=x onerror="alert(2)">&{{ 7*7 }}'


def test_lines_have_their_ends_and_headlines_their_change_since_the_baseline():
    line = spark([0.5, float("nan"), 1.0, 0.75])
    assert line.points == "3.0,25.0 79.0,3.0 117.0,14.0"
    assert (line.count, line.last_y) == (3, 14.0)
    assert spark([0.4]).points == "117.0,14.0" and spark([]) is None and spark([float("nan")]) is None
    history = [("000001", {"c/R@5": 0.8, "c/stale@5": 0.1}), ("000002", {"c/R@5": 0.9})]
    compared = {"R@5": (0.8, 0.85), "stale@5": (0.1, 0.2)}
    recall, stale = headlines("c", {"stale@5": 0.2, "R@5": 0.85}, history, compared)
    assert (recall["title"], recall["worse"], recall["spark"].count) == ("Recall@5", False, 3)
    assert recall["change"] == pytest.approx(0.05) and recall["baseline"] == 0.8, "not the last build's 0.9"
    assert (stale["worse"], stale["spark"].count) == (True, 2)
    (first,) = headlines("c", {"R@5": 0.85}, history, {})
    assert first["change"] is None and first["baseline"] is None and not first["worse"]


@pytest.fixture(scope="module")
def page(made):
    build = published(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made.path.parent)
        return gather(made, build, judge_build(made, build))


def test_the_page_shows_headlines_types_latency_labels_misses_and_health(page):
    (chats,) = page["collections"]
    assert [h["key"] for h in chats["headlines"]] == [
        "R@5", "nDCG@10", "packed_recall", "packed_all", "evidence_per_1000_tokens", "irrelevant_tokens",
        "context_precision", "context_tokens", "returned_P@5", "current_fact_recall", "stale@5", "duplicate_share",
        "false_retirement", "citation_validity", "p95_ms",
    ]  # fmt: skip
    assert [(t["type"], t["queries"]) for t in chats["types"]] == [("single", 2), ("temporal", 1), ("updated", 1)]
    assert [x.name for x in chats["latency"]] == [
        "total", "embed", "seeds", "expand", "rank", "rerank", "read", "pack",
    ]  # fmt: skip
    assert chats["confusion"]["UPDATE"]["UPDATE"] == 1 == chats["labelled"]
    assert chats["health"]["chains"] == {2: 1} and chats["health"]["retired_by_update"] == 1
    html = report_html(page)
    assert "no baseline" in html and "Memory health" in html
    assert f"By RAGAS, of the first ten by ids: precision {chats['ragas']['precision']:.3f}" in html
    assert picture_html(page).startswith("<svg") and "prefers-color-scheme" in picture_html(page)


def test_the_page_needs_nothing_from_outside_and_runs_no_script_that_documents_and_questions_say(page):
    html = report_html(page)
    assert not re.search(r"<script|https?://(?!www\.w3\.org/2000/svg)|@import|url\(|\son\w+=", html)
    assert "default-src 'none'" in html and len(html.encode()) < MAX_BYTES
    for text in (report_html(nasty_page(page)), picture_html(nasty_page(page))):
        assert "<script" not in text and "<img" not in text
        assert "&lt;/style&gt;&lt;script&gt;alert" in text
    large = nasty_page(page)
    question = large["collections"][0]["worst"][0] | {"question": "w" * 100_000}
    large["collections"][0]["worst"] = [question] * 40
    html = report_html(large)
    assert len(html.encode()) <= MAX_BYTES and html.count("w" * 100_000) == 20


def nasty_page(page):
    worst = {
        "id": NASTY, "question": NASTY, "type": NASTY, "user": NASTY, "as_of": None, "metrics": {"R@5": 0.0},
        "wanted": [{"uri": NASTY, "quote": NASTY}], "misses": [],
        "got": [{"source": NASTY, "relevant": False, "stale": True, "text": NASTY}],
    }  # fmt: skip
    (chats,) = page["collections"]
    types = [t | {"type": NASTY} for t in chats["types"][:1]]
    chats = chats | {"name": NASTY, "worst": [worst], "types": types}
    return page | {"collections": [chats], "reasons": [(NASTY, NASTY)], "warnings": [(NASTY, NASTY)]}


def test_the_worst_questions_say_where_what_they_need_was_lost(judged_home):
    build = published(judged_home)
    summary = judge_build(judged_home, build)
    run = summary.collections[0].run
    zero = dict.fromkeys(run.per_query["q-tea"], 0.0)
    golden = GoldenSet("chats", tuple(load_golden(golden_path(data_folder(), "chats"))), "ann")
    with open_index(build.index) as reader:
        tables = build.tables(JUDGED_TABLES)
        misses = find_misses(reader, search_golden(reader, golden, tables), tables, ["q-tea"])
    results = {"q-tea": [Hit("gone", "x.md:0-1")]}
    run = replace(run, per_query=dict(run.per_query) | {"q-tea": zero}, results=results, misses=misses)
    page = gather(judged_home, build, combine([decide(run, None, True)]))
    (worst,) = page["collections"][0]["worst"]
    assert (worst["id"], worst["misses"][0].cause, worst["misses"][0].rank) == ("q-tea", "found", 1)
    assert worst["wanted"] == [{"uri": "turns.jsonl#s1", "quote": "I prefer tea in the morning."}]


def test_a_build_without_golden_set_has_a_page_too(judged_home, tmp_path):
    summary = combine([decide(GoldenRun("chats"), None, False)])
    path = write_report(judged_home, published(judged_home), summary, tmp_path / "page.html")
    assert "no golden set" in path.read_text() and "Memory health" in path.read_text()


def test_the_command_line_writes_the_page_and_names_a_path_that_cannot_be(judged_home, tmp_path):
    from click.testing import CliRunner

    from palimpsest.cli.evaluate import gate
    from palimpsest.core.errors import PalimpsestError, Refused

    page = tmp_path / "r.html"
    done = CliRunner().invoke(gate, ["--home", str(judged_home.path), "--report", str(page), "--json"])
    assert isinstance(done.exception, Refused) and "<h2>chats" in page.read_text()
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["collections"][0]["quality"]["citation_validity"] == 1.0
    done = CliRunner().invoke(gate, ["--home", str(judged_home.path), "--report", "/dev/null/r.html"])
    assert isinstance(done.exception, PalimpsestError) and "--report" in str(done.exception)


def test_a_delete_takes_pages_notes_and_programs_along(judged_home, tmp_path):
    from palimpsest.pipeline.deletion.delete import delete

    home = Home(tmp_path / "home", tmp_path / "vectors")
    shutil.copytree(judged_home.path, home.path)
    shutil.copytree(judged_home.embeddings, home.embeddings)
    build = published(home)
    summary = judge_build(home, build)
    run = summary.collections[0].run
    zero = {q: dict.fromkeys(v, 0.0) for q, v in run.per_query.items()}
    page = write_report(home, build, combine([decide(replace(run, per_query=zero), None, True)]))
    assert "quixotic-77" in page.read_text()
    write_note(home, "explore", Note(title="quixotic-77", build_id="000001"))
    write_json(home_programs(home) / "tuned.json", {"state": {"demos": ["quixotic-77"]}})
    done = delete(home, document=None, user="bob", collection=None)
    assert done.to_json()["residue"] == [] and not page.exists()
    assert not [p for p in home.path.rglob("*") if p.is_file() and b"quixotic-77" in p.read_bytes()]
