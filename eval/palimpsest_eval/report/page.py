"""The values of a report page, as its templates read them."""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypedDict

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import read_json, write_json
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.core.times import readable
from palimpsest.store.home import Home
from palimpsest_eval.gate.health import LIMITS, MemoryHealth
from palimpsest_eval.golden.golden_run import Miss
from palimpsest_eval.labels.label_metrics import ReliabilityBin
from palimpsest_eval.report import charts
from palimpsest_eval.report.charts import HEIGHT, WIDTH, GraphChart, Spark
from palimpsest_eval.report.pictures import Interval, palette_css, to_svg

# Notes: what the notebooks found, kept in the home as JSON; the next report shows them, the gate reads the limits.

_NAME = re.compile(r"[a-z0-9_]{1,40}")
_Short = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]


class Note(BaseModel):
    """What a notebook hands to the pipeline: a title, of which build, a few lines, a table, and limits of health."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    title: _Short
    build_id: _Short
    lines: tuple[_Short, ...] = Field(default=(), max_length=50)
    columns: tuple[_Short, ...] = Field(default=(), max_length=12)
    rows: tuple[tuple[str | float | int | None, ...], ...] = Field(default=(), max_length=200)
    limits: Mapping[str, float] = {}


def notes_folder(home: Home) -> Path:
    """Returns where the notes of a home lie."""
    return home.path / "notes"


def write_note(home: Home, name: str, note: Note) -> Path:
    """Writes a notebook's note, over its last one, and returns the file.

    Raises:
        PalimpsestError: the name is not lower case letters, digits and underscores, a row is not as wide as the
            columns, or a limit is unknown.
    """
    if not _NAME.fullmatch(name):
        raise PalimpsestError(f"note {name[:40]!r}: use lower case letters, digits and underscores")
    if any(len(row) != len(note.columns) for row in note.rows):
        raise PalimpsestError(f"note {name}: every row must have a cell for each of {len(note.columns)} columns")
    if unknown := sorted(set(note.limits) - set(LIMITS)):
        raise PalimpsestError(f"note {name}: limit {unknown[0]!r} is none of {', '.join(LIMITS)}")
    path = notes_folder(home) / f"{name}.json"
    write_json(path, note.model_dump(mode="json"))
    return path


def read_notes(home: Home) -> list[Note]:
    """Returns the notes of a home, by name of the notebook.

    Raises:
        PalimpsestError: a file is not a note; the message names file and field.
    """
    notes = []
    for path in sorted(notes_folder(home).glob("*.json")):
        fix = f"write it again with its notebook, or remove it ({path})"
        raw: Any = read_json(path, fix)
        try:
            notes.append(Note.model_validate(raw))
        except ValidationError as e:
            first = e.errors()[0]
            where = ".".join(map(str, first["loc"])) or "file"
            raise PalimpsestError(f"note {path.name}: {where}: {first['msg'].lower()}; {fix}") from None
    return notes


def health_limits(home: Home) -> dict[str, float]:
    """Returns the limits of memory health that the notes set; of two, the tighter."""
    limits: dict[str, float] = {}
    for note in read_notes(home):
        for name, value in note.limits.items():
            limits[name] = min(value, limits.get(name, value))
    return limits


class HeadlineCard(TypedDict):
    """A headline number: its value, the baseline's and the change since it, and the line over builds."""

    key: str
    title: str
    explanation: str
    value: float
    baseline: float | None
    change: float | None
    worse: bool
    spark: Spark | None
    ms: bool


class RetrievedText(TypedDict):
    """A result of a question: its source, whether it is wanted or outdated, and the start of its text."""

    source: str
    relevant: bool
    stale: bool
    text: str


class WorstQuestion(TypedDict):
    """A question that misses something: what it needs, where that was lost, and what was retrieved."""

    id: str
    question: str
    type: str
    user: str | None
    as_of: date | None
    metrics: Mapping[str, float]
    wanted: list[dict[str, str]]
    misses: Sequence[Miss]
    got: list[RetrievedText]


class CollectionSection(TypedDict):
    """What the page shows of one collection."""

    name: str
    status: str
    queries: int
    smallest_loss: float | None
    headlines: list[HeadlineCard]
    types: list[JsonObject]
    against: Mapping[str, str]
    latency: list[Interval]
    confusion: Mapping[str, Mapping[str, int]] | None
    calibration: Sequence[ReliabilityBin]
    labelled: int
    ragas: Mapping[str, float]
    worst: list[WorstQuestion]
    broken: list[str]
    health: MemoryHealth
    graph: GraphChart | None


class ReportPage(TypedDict):
    """What the page shows of a build."""

    build_id: str
    created_at: str
    digest: str
    model: str
    status: str
    reasons: list[tuple[str, str]]
    warnings: list[tuple[str, str]]
    known: list[str]
    counts: Mapping[str, int]
    relations: Mapping[str, JsonValue]
    builds: list[str]
    collections: list[CollectionSection]
    notes: list[Note]
    causes: Mapping[str, str]
    labels: Sequence[str]


# Draws the report: Jinja templates that escape every value, one page with its style inside and no script at all.

MAX_BYTES = 2 * 2**20


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Always on, whatever a template is called: documents and questions are untrusted text.
    environment = Environment(
        loader=PackageLoader("palimpsest_eval.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"spark_width": WIDTH, "spark_height": HEIGHT, "palette": palette_css(), "charts": charts}
    environment.filters["picture"] = to_svg
    environment.filters["time"] = readable
    environment.filters["number"] = _format_number
    return environment


def report_html(page: ReportPage) -> str:
    """Returns the page of a build from what `gather` returned, with fewer questions where it would be over 2 MB."""
    template = _environment().get_template("page.html")
    text = str(template.render(page=page))
    while len(text.encode()) > MAX_BYTES and any(c["worst"] for c in page["collections"]):
        for section in (page := deepcopy(page))["collections"]:
            section["worst"] = section["worst"][: len(section["worst"]) // 2]
        text = str(template.render(page=page))
    return text


def render_page(template: str, **values: object) -> str:
    """Returns a template of this folder with values, every one of them escaped."""
    return str(_environment().get_template(template).render(**values))


def picture_html(page: ReportPage) -> str:
    """Returns the report's main picture as an SVG document: recall by collection and type."""
    types = {c["name"]: c["types"] for c in page["collections"]}
    title = f"Build {page['build_id']}: {page['status']}"
    return to_svg(charts.recall_chart(types, title), f"{title}, recall at 5 by type of question", alone=True)


def _format_number(value: float | None, ms: bool = False, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:{'+' if signed else ''}.{1 if ms else 3}f}"
