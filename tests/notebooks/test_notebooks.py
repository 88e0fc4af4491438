"""Every notebook is run by nbmake on a small home, and lies in git without outputs."""

import json
import shutil
from pathlib import Path

import nbformat
import pytest
from nbmake.nb_run import NotebookRun

from eval.golden_run import GateRun
from eval.judge import judge_staged
from eval.notebook import last_two, open_build
from eval.notes import read_notes
from eval.report import gather, report_html
from pipelines.build import drop_unwanted, index_build, make_plan, partition, publish_build
from pipelines.errors import PalimpsestError
from pipelines.stages import STAGES, run_stage
from pipelines.store.builds import published
from pipelines.store.home import Home

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
OURS = ("1_explore_build", "3_compare_runs", "4_read_the_misses", "5_memory_health")
TURN = {
    "session_id": "mira-2026-07-01", "user_id": "mira", "speaker": "Mira", "timestamp": "2026-07-01T09:00:00Z",
    "text": "The bakery opens at seven in July.",
}  # fmt: skip


def build_and_judge(home: Home, corpus: Path) -> None:
    """What `palimpsest build` does, without Dagster and without asking the gate's leave."""
    plan = make_plan(home, [corpus])
    home.create()
    home.remember_sources(plan.collections)
    drop_unwanted(home, plan)
    for name in plan.changed:
        for stage in STAGES:
            run_stage(partition(home, name, plan.collections[name]), stage)
    index_build(home)
    judge_staged(home)
    publish_build(home)


@pytest.fixture(scope="module")
def home(tmp_path_factory, shared_vectors) -> Home:
    """The demo's diary, built twice: the second time one of its users wrote one thing more."""
    base = tmp_path_factory.mktemp("notebooks")
    corpus = base / "corpus"
    shutil.copytree(ROOT / "data/corpora/diary", corpus / "diary")
    home = Home(base / "home", shared_vectors)
    build_and_judge(home, corpus)
    with (corpus / "diary/mira/2026-06.jsonl").open("a", encoding="utf-8") as f:
        f.write(json.dumps(TURN) + "\n")
    build_and_judge(home, corpus)
    return home


def run(name: str, home: Home, monkeypatch, **parameters: object) -> nbformat.NotebookNode:
    """Runs a notebook in its own folder, its parameters set as a person would set them."""
    monkeypatch.setenv("PALIMPSEST_HOME", str(home.path))
    path = ROOT / "notebooks" / f"{name}.ipynb"
    if parameters:
        notebook = nbformat.read(path, as_version=4)
        cell = next(c for c in notebook.cells if "parameters" in c.metadata.get("tags", []))
        cell.source += "\n" + "\n".join(f"{k} = {v!r}" for k, v in parameters.items())
        path = path.with_name(f".{name}.tmp.ipynb")
        nbformat.write(notebook, path)
    try:
        done = NotebookRun(path, default_timeout=120).execute()
    finally:
        if parameters:
            path.unlink()
    assert done.error is None, done.error
    return done.nb


@pytest.mark.parametrize("name", OURS)
def test_a_notebook_runs_and_hands_on_a_note_that_the_report_shows(name, home, monkeypatch):
    done = run(name, home, monkeypatch)
    note = json.loads((home.path / "notes" / f"{name[2:]}.json").read_text())
    assert note["build_id"] == "000002" and note["columns"] and note["rows"]
    pictures = [
        o["data"]["application/vnd.plotly.v1+json"]["layout"]["title"]["text"]
        for c in done.cells
        for o in c.get("outputs", [])
        if "application/vnd.plotly.v1+json" in o.get("data", {})
    ]
    assert pictures and all("(build 000002" in title for title in pictures)


def test_the_report_of_the_next_build_shows_what_was_handed_on(home, monkeypatch):
    run("5_memory_health", home, monkeypatch, LIMITS={"undated_share": 0.5})
    from eval.judge import judge_build

    build = published(home)
    summary = judge_build(home, build)
    assert "Memory health" in {n.title for n in read_notes(home)}
    assert "Notes from notebooks" in report_html(gather(home, build, summary))


def test_the_neighbourhood_needs_no_network(home, monkeypatch):
    done = run("1_explore_build", home, monkeypatch, NODES=12)
    page = next(o["data"]["text/html"] for c in done.cells for o in c.get("outputs", []) if "Around one" in str(o))
    assert "Plotly.newPlot" in page and len(page) > 1_000_000, "the library is in the page"
    assert '<script src="http' not in page


def test_every_notebook_lies_in_git_without_outputs_and_with_parameters():
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        code = [c for c in notebook.cells if c.cell_type == "code"]
        assert not any(c.outputs or c.execution_count for c in code), path.name
        assert sum("parameters" in c.metadata.get("tags", []) for c in code) == 1, path.name
        assert not any(line.startswith(("def ", "class ")) for c in code for line in c.source.splitlines()), path.name


def test_a_build_that_is_not_there_or_not_judged_is_told(home, tmp_path):
    with pytest.raises(PalimpsestError, match="keeps no build 000009; it has 000001, 000002"):
        open_build(home.path, 9)
    with pytest.raises(PalimpsestError, match="nothing is published"):
        open_build(tmp_path)
    with pytest.raises(PalimpsestError, match="keeps 0 builds"):
        last_two(tmp_path)
    with pytest.raises(PalimpsestError, match="atlas was not judged"):
        open_build(home.path).run("atlas")
    assert isinstance(open_build(home.path, 1).run("diary"), GateRun) and last_two(home.path) == ("000001", "000002")
