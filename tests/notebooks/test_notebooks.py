"""Every notebook is run by nbmake on a small home, and lies in git without outputs."""

import base64
import json
from xml.etree import ElementTree

import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.store.builds import published
from palimpsest_eval.golden.golden_run import GoldenRun
from palimpsest_eval.labels.saved_programs import home_programs
from palimpsest_eval.notebook.build_view import last_two, open_build, table
from palimpsest_eval.report import gather, report_html
from palimpsest_eval.report.page import read_notes
from tests.notebooks.conftest import ROOT, SERVERS, run_notebook

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
VEGA, TEXT = "application/vnd.vegalite.v5+json", "{http://www.w3.org/2000/svg}text"
OURS = ("1_explore_build", "3_compare_runs", "4_read_the_misses", "5_memory_health")


@pytest.mark.parametrize("name", OURS)
def test_a_notebook_runs_and_hands_on_a_note_that_the_report_shows(name, home, ran):
    done = ran(name)
    note = json.loads((home.path / "notes" / f"{name[2:]}.json").read_text())
    assert note["build_id"] == "000002" and note["columns"] and note["rows"]
    titles = [data[VEGA]["title"] for data in pictures(done)]
    assert titles and all(title["subtitle"].startswith("build 000002") for title in titles)


def test_the_baseline_of_the_demos_diary_does_not_lie_behind_what_the_code_gives(home):
    """The nightly tests judge the other collections: tests/eval/test_mutations_build.py."""
    warnings = published(home).manifest.gate["warnings"]
    assert not [w for w in warnings if "lies behind" in w], "palimpsest baseline accept, on a home of the demo"


@pytest.mark.parametrize("name", OURS)
def test_an_exported_page_shows_every_figure_without_a_script(name, ran):
    from nbconvert import HTMLExporter

    done = ran(name)
    stills = [data["image/svg+xml"] for data in pictures(done)]
    page, _ = HTMLExporter().from_notebook_node(done)
    assert stills and all(ElementTree.fromstring(still).tag.endswith("svg") for still in stills)
    assert all(base64.b64encode(still.encode()).decode() in page for still in stills)


@pytest.mark.parametrize(
    "name", ["2_tune_relation_labels", *(pytest.param(n, marks=pytest.mark.slow) for n in sorted(SERVERS)[1:])]
)
def test_without_a_model_the_first_cell_says_so_and_nothing_is_tuned_or_saved(name, copied):
    done = run_notebook(name, copied, {"LM": "gone@http://127.0.0.1:9/v1"})
    shown = [str(c.outputs) for c in done.cells if c.cell_type == "code" and c.outputs]
    assert "No language model answers: gone at http://127.0.0.1:9/v1" in shown[0]
    assert "docs/local-model.md" in shown[0] and "Traceback" not in str(shown)
    assert not copied.lm_ledger.exists() and not home_programs(copied).exists()


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) for n in ("3_compare_runs", "4_read_the_misses")]
)
def test_a_home_without_golden_questions_is_an_error_with_its_fix(name, bare_home):
    done = run_notebook(name, bare_home, {})
    assert "palimpsest gate --init" in str([c.get("outputs") for c in done.cells])


def test_a_table_shows_every_text_in_full_and_escapes_it():
    long = "A sentence that a person must judge. " * 40
    shown = table(pl.DataFrame({"text": [long, "<b>&"], "score": [0.123456, None]}))
    assert long in shown._repr_html_() and "&lt;b&gt;&amp;" in shown._repr_html_() and "<b>" not in shown._repr_html_()
    assert long in repr(shown) and "0.1235" in repr(shown)


@pytest.mark.slow
def test_the_report_of_the_next_build_shows_what_was_handed_on(home, ran):
    ran("5_memory_health")
    from palimpsest_eval.runs.judge_build import judge_build

    build = published(home)
    summary = judge_build(home, build)
    assert "Memory health" in {n.title for n in read_notes(home)}
    assert "Notes from notebooks" in report_html(gather(home, build, summary))


def test_the_neighbourhood_is_drawn_by_jupyterlab_itself_and_labels_every_node(ran):
    drawn = next(data for data in pictures(ran("1_explore_build")) if data[VEGA]["title"]["text"].startswith("Around"))
    rows = next(layer["data"]["values"] for layer in drawn[VEGA]["layer"] if layer["mark"]["type"] == "circle")
    words = " ".join("".join(t.itertext()) for t in ElementTree.fromstring(drawn["image/svg+xml"]).iter(TEXT))
    assert 5 < len(rows) <= 12 and all(row["label"] in words for row in rows)
    assert "url" not in str(drawn[VEGA]["layer"]) and "text/html" not in drawn


def pictures(done):
    return [o["data"] for c in done.cells for o in c.get("outputs", []) if VEGA in o.get("data", {})]


def test_every_notebook_lies_in_git_without_outputs_and_with_parameters():
    import nbformat

    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        code = [c for c in notebook.cells if c.cell_type == "code"]
        assert not any(c.outputs or c.execution_count for c in code), path.name
        assert sum("parameters" in c.metadata.get("tags", []) for c in code) == 1, path.name
        assert not any(line.startswith(("def ", "class ")) for c in code for line in c.source.splitlines()), path.name


def test_a_missing_or_unjudged_build_is_an_error(home, tmp_path):
    with pytest.raises(PalimpsestError, match="has no build 000009; it has 000001, 000002"):
        open_build(home.path, 9)
    with pytest.raises(PalimpsestError, match="no published build"):
        open_build(tmp_path)
    with pytest.raises(PalimpsestError, match="has 0 builds"):
        last_two(tmp_path)
    with pytest.raises(PalimpsestError, match="atlas was not judged"):
        open_build(home.path).run("atlas")
    assert isinstance(open_build(home.path, 1).run("diary"), GoldenRun) and last_two(home.path) == ("000001", "000002")
