"""What the notebooks start from: a build of a home, read-only, and the notes that they write."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.pipeline.stages import indexed_tables
from palimpsest.query.reader import open_index
from palimpsest.query.request.types import Scope
from palimpsest.query.result import SearchResult
from palimpsest.store.builds import Build, kept_builds, published
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home, data_folder
from palimpsest_eval.gate.compare import MeasureChange, MovedQuestion, moved_questions, significance
from palimpsest_eval.gate.health import MemoryHealth, memory_health
from palimpsest_eval.golden.golden_run import GoldenRun, Miss
from palimpsest_eval.golden.questions import collection_tables, load_questions
from palimpsest_eval.report.health_page import HomeHealth
from palimpsest_eval.report.page import Note, write_note
from palimpsest_eval.runs.home_metrics import health_of
from palimpsest_eval.runs.judge_build import accept_home, run_collection

# A table as a notebook shows it: every row's text in full, for a person must read what they judge.

_CELL = "text-align:left;vertical-align:top;white-space:pre-wrap;overflow-wrap:anywhere;max-width:40em"


@dataclass(frozen=True)
class Table:
    """Rows with their columns; as HTML the words of sources are escaped and nothing is cut."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(c)}</th>" for c in self.columns)
        body = "".join(f"<tr>{''.join(_html_cell(v) for v in row)}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def __repr__(self) -> str:
        lines = [" | ".join(self.columns), *(" | ".join(_format_cell(v) for v in row) for row in self.rows)]
        return "\n".join(lines)


def table(rows: pl.DataFrame | Sequence[Mapping[str, Any]]) -> Table:
    """Returns a frame, or rows of equal keys, as a table that shows every text in full."""
    if isinstance(rows, pl.DataFrame):
        return Table(tuple(rows.columns), tuple(rows.rows()))
    columns = tuple(rows[0]) if rows else ()
    return Table(columns, tuple(tuple(row[c] for c in columns) for row in rows))


def _html_cell(value: Any) -> str:
    return f'<td style="{_CELL}">{html.escape(_format_cell(value))}</td>'


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "\n".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


_SHOWN = 50
UNJUDGED = (
    "No collection of this build has golden questions. Draft some with `palimpsest gate --init`, edit them, and run"
    " `palimpsest build` (docs/golden.md)."
)


@dataclass(frozen=True)
class BuildView:
    """A build of a home with its tables; `run` and `misses` need a collection that has golden questions."""

    home: Home
    build: Build

    @property
    def build_id(self) -> str:
        """Number of the build."""
        return self.build.build_id

    @cached_property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables of the build over all collections."""
        return self.build.tables(indexed_tables())

    @property
    def judged(self) -> list[str]:
        """Names of the collections that were judged by golden questions."""
        return sorted(self.build.manifest.golden_runs or {})

    def run(self, collection: str) -> GoldenRun:
        """Returns what the collection's golden questions got from this build.

        Raises:
            PalimpsestError: it was not judged.
        """
        runs = self.build.manifest.golden_runs or {}
        if collection not in runs:
            raise PalimpsestError(
                f"build {self.build_id}: {collection} was not judged; add data/golden/{collection}.jsonl and build"
            )
        return GoldenRun.from_json(runs[collection])

    def misses(self, collection: str, shown: int = _SHOWN) -> list[Miss]:
        """Returns why the questions that miss most do, the first `shown` of them."""
        run = self.run(collection)
        if run.misses is None:  # judged by a version that did not save them
            decisions = read_decisions(self.home.decisions)
            run = run_collection(self.build, collection, self.tables, decisions, diagnose=True) or run
        misses = run.misses or ()
        first = list(dict.fromkeys(miss.question_id for miss in misses))[:shown]
        return [miss for miss in misses if miss.question_id in first]

    def explain(self, miss: Miss, collection: str) -> SearchResult:
        """Returns what a missed question gets now, with why each result is there; `explained_figure` draws it."""
        questions = load_questions(data_folder(), collection) or ()
        question = next(q for q in questions if q.id == miss.question_id)
        filters: Any = question.filters
        user = question.user or self.build.manifest.default_user(collection)
        with open_index(self.build.index) as reader:
            return reader.search(question.question, Scope(collection, user), explain=True, **filters)

    def health(self, now: datetime | None = None) -> dict[str, MemoryHealth]:
        """Returns the memory health of each collection."""
        return {
            c: memory_health(collection_tables(self.tables, c) | {"rejects": self.build.table(c, "rejects")}, now)
            for c in self.names
        }

    def home_health(self, now: datetime | None = None) -> HomeHealth:
        """Returns the numbers of the health report, with the builds before this one."""
        return health_of(self.home, self.build, now)

    @property
    def names(self) -> list[str]:
        """Names of the build's collections."""
        return self.build.collections


def open_build(home: str | Path, build_id: str | int | None = None) -> BuildView:
    """Opens a kept build of a home, the published one where none is named.

    Raises:
        PalimpsestError: the home has no such build.
    """
    folder = Home(Path(home))
    if build_id is None:
        if (current := published(folder)) is None:
            raise PalimpsestError(f"home {home}: it has no published build; run palimpsest build --home {home}")
        return BuildView(folder, current)
    named = str(build_id).zfill(6)
    found = next((b for b in kept_builds(folder) if b.build_id == named and b.is_finished), None)
    if found is None:
        raise PalimpsestError(
            f"home {home}: has no build {named}; it has {', '.join(b.build_id for b in kept_builds(folder))}"
        )
    return BuildView(folder, found)


def first_judged(view: BuildView) -> str | None:
    """Returns the first collection that was judged by golden questions; None without one."""
    return next((c for c in view.judged if view.run(c).questions), None)


def last_two(home: str | Path) -> tuple[str, str]:
    """Returns the numbers of the two newest kept builds, the older first.

    Raises:
        PalimpsestError: there are not two.
    """
    ids = [b.build_id for b in kept_builds(Home(Path(home))) if b.is_finished]
    if len(ids) < 2:
        raise PalimpsestError(f"home {home}: has {len(ids)} builds, a comparison needs two; change a source and build")
    return ids[-2], ids[-1]


def collection_counts(view: BuildView) -> pl.DataFrame:
    """Returns documents, chunks, memories and entities of each collection, and the mean length of a chunk."""
    rows = []
    for name in view.names:
        counts = {t: view.build.table(name, t).height for t in ("documents", "chunks", "memories", "entities")}
        tokens = view.build.table(name, "chunks")["token_count"].mean()
        rows.append({"collection": name, **counts, "tokens_a_chunk": round(float(str(tokens or 0.0)), 1)})
    return pl.DataFrame(rows)


def compare_collection(a: BuildView, b: BuildView, collection: str) -> tuple[list[MeasureChange], list[MovedQuestion]]:
    """Returns how the measures of a collection changed between two builds, and the questions that moved."""
    runs = a.run(collection), b.run(collection)
    return significance(*runs), moved_questions(*runs)


def save_table(
    view: BuildView,
    name: str,
    title: str,
    rows: Sequence[Mapping[str, Any]],
    lines: Sequence[str] = (),
    limits: Mapping[str, float] | None = None,
) -> Path:
    """Writes rows of equal keys as the notebook's note, the first 200; the next report shows it."""
    columns = list(rows[0]) if rows else []
    cells = [tuple(_cell(row[c]) for c in columns) for row in rows[:200]]
    note = Note(
        title=title,
        build_id=view.build_id,
        lines=tuple(lines),
        columns=tuple(columns),
        rows=tuple(cells),
        limits=limits or {},
    )
    return write_note(view.home, name, note)


def accept_baseline_of(view: BuildView, why: str) -> list[Path]:
    """Accepts the home's build as the new baseline where a reason is given; does nothing without one."""
    return [a.path for a in accept_home(view.home, why)] if why.strip() else []


def _cell(value: Any) -> str | float | int | None:
    if value is None or isinstance(value, int | str):
        return value
    return round(value, 4) if isinstance(value, float) else str(value)


__all__ = [
    "UNJUDGED",
    "BuildView",
    "accept_baseline_of",
    "collection_counts",
    "compare_collection",
    "first_judged",
    "last_two",
    "open_build",
    "save_table",
    "table",
]
