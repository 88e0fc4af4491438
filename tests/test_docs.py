"""The documentation is true: generated pages are current, links resolve, every environment variable is listed."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "tests/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = [
    *sorted((ROOT / "docs/reference").glob("*.md")),
    ROOT / "docs/sources.md",
]
CODE = [*(ROOT / "pipelines").rglob("*.py"), *(ROOT / "eval").rglob("*.py")]
NOT_VARIABLES = {"PALIMPSEST_CLOSED"}  # a relationship type


def test_generated_pages_are_what_make_docs_writes() -> None:
    command = [sys.executable, "-m", "cogapp", "--check", "--diff", *map(str, GENERATED)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"run make docs\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
        path, _, anchor = unquote(target).partition("#")
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists() or (anchor and anchor not in _anchors(linked)):
            broken.append(target)
    assert not broken


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.slow
def test_the_first_lines_of_the_service_work_as_they_are_on_a_new_machine(tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().partition("## A service from nothing\n")[2].partition("\n## ")[0]
    lines = section.partition("```python\n")
    (tmp_path / "lines.py").write_text(lines[2].partition("```")[0])
    commands = "\n".join(re.findall(r"^    (.*)$", lines[0], re.M))
    script = f"set -e\n{commands}\n{sys.executable} lines.py"
    environment = {n: v for n, v in os.environ.items() if not n.startswith("PALIMPSEST_")}
    environment["HOME"] = str(tmp_path)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    run = partial(subprocess.run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    try:
        done = run(["bash", "-c", script], timeout=300)
        assert done.returncode == 0, done.stderr
        assert "I live in Ghent." in done.stdout and "I work at Heron." in done.stdout.rpartition("}")[2]
    finally:
        run(["palimpsest", "service", "stop", "--home", "chats"], timeout=60)


def test_at_most_40000_words_are_written_by_hand() -> None:
    pages = [p for p in PAGES if "reference" not in p.parts and p != ROOT / "tests/README.md"]
    texts = [re.sub(r"\]\]\]\n-->.*?<!-- \[\[\[end", "", page.read_text(), flags=re.DOTALL) for page in pages]
    assert sum(bool(re.search(r"\w", word)) for text in texts for word in text.split()) <= 40_000


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/index.html").exists()


def test_every_page_is_in_the_navigation_of_the_site_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    listed = re.findall(r": (\S+\.md)$", nav, re.M)
    pages = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted([*pages, "index.md", "changelog.md"])


def test_every_environment_variable_is_listed_once() -> None:
    page = (ROOT / "docs/reference/environment.md").read_text()
    names = [n for row in re.findall(r"^\|([^|]+)\|", page, re.M) for n in re.findall(r"`([A-Z][A-Z0-9_]+)`", row)]
    assert len(names) == len(set(names))
    read = {n for file in CODE for n in _variables(file.read_text())}
    listed = {n for n in names if "_" in n}
    # The companions of PALIMPSEST_LM are read by suffix.
    suffixed = {n for n in listed if n.startswith("PALIMPSEST_LM_")}
    assert listed - suffixed == read - suffixed


def _variables(code: str) -> set[str]:
    """Returns the names of environment variables that a module reads or sets."""
    prefixes = "PALIMPSEST|NEO4J|DAGSTER|RAGAS|OMP|OPENBLAS|HF|TOKENIZERS|OTEL|RAY"
    names = re.findall(rf"""["']((?:{prefixes})_[A-Z0-9_]+)["']""", code)
    return {n for n in names if n not in NOT_VARIABLES}
