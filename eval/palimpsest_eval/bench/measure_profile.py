"""Where a build and its queries take their time: seconds by stage with a budget each, and flame graphs.

The flame graphs are of the main thread, by pyinstrument; where it waits for the threads that run a model, they say so.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.core.ids import JsonRecord
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.pipeline.summary import build_summary
from palimpsest.query import Scope, open_home
from palimpsest.store.home import Home, data_folder
from palimpsest_eval.golden.questions import load_questions
from palimpsest_eval.metrics import percentiles

if TYPE_CHECKING:
    from pyinstrument import Profiler

QUERIES = 100  # about: as many in each scope
_INTERVAL_S = 0.005
_FIXED_S = 2.0
"""Of each stage: what loading its models and libraries may take."""
STAGE_BUDGETS: Mapping[str, float] = {"relations": 40.0, "embeddings": 3.0, "facts": 3.0, "documents": 2.0}
"""Seconds that a stage may take for each thousand memories, on two cores."""
OTHER_STAGE_BUDGET = 1.0
STEP_BUDGETS: Mapping[str, float] = {"rerank_ms": 60.0, "seeds_ms": 15.0, "embed_ms": 8.0, "read_ms": 8.0}
"""Milliseconds that a step of a query may take, p95."""
OTHER_STEP_BUDGET = 5.0


@dataclass(frozen=True)
class Part(JsonRecord):
    """A stage of the build or a step of the queries.

    Attributes:
        name: of the stage or step; a step ends in `_ms`.
        figure: seconds of a stage, p95 in milliseconds of a step.
        budget: the most that it may take.
    """

    name: str
    figure: float
    budget: float

    @property
    def is_kept(self) -> bool:
        """Whether the part is within its budget."""
        return self.figure <= self.budget


@dataclass(frozen=True)
class Profile(JsonRecord):
    """A profile, the largest part first.

    Attributes:
        memories: of the build.
        queries: how many were searched.
        stages: of the build.
        steps: of the queries.
        files: the flame graphs.
    """

    memories: int
    queries: int
    stages: tuple[Part, ...]
    steps: tuple[Part, ...]
    files: tuple[str, ...]

    def text(self) -> str:
        """Returns the profile as lines for people."""
        lines = [f"build of {self.memories:,} memories, seconds by stage"]
        lines += [_line(part, "s") for part in self.stages]
        lines += [f"{self.queries} queries, p95 in milliseconds by step", *(_line(part, "ms") for part in self.steps)]
        return "\n".join([*lines, *(f"flame graph {file}" for file in self.files)])


def measure_profile(home: Home, folder: Path) -> Profile:
    """Builds the sources of a home anew in a throw-away home, searches it, and writes a flame graph of each.

    Args:
        home: its `sources` are built; it is not changed.
        folder: for build.html and queries.html.

    Raises:
        PalimpsestError: the home has no sources, or the folder cannot be written.
    """
    if not home.sources:
        raise PalimpsestError(f"bench --profile: home {home.path} has no sources; build it first")
    with tempfile.TemporaryDirectory(prefix="palimpsest-bench-") as scratch:
        built = Home(Path(scratch))
        built.create()
        built.write_sources(home.sources)
        with _profiler() as building:
            summary = build_summary(built, run_without_dagster(built, make_plan(built, None)))
        with _profiler() as searching:
            steps = _search(built)
    files = {"build.html": building, "queries.html": searching}
    try:
        for name, profiler in files.items():
            write_bytes(folder / name, profiler.output_html().encode())
    except OSError as e:
        raise PalimpsestError(f"bench --profile {folder}: {e.strerror}; name another folder") from None
    thousands = summary.memories / 1000
    stages = [
        Part(name, seconds, _FIXED_S + thousands * STAGE_BUDGETS.get(name, OTHER_STAGE_BUDGET))
        for name, seconds in summary.seconds.items()
    ]
    found = [
        Part(name, percentiles(values)["p95"], STEP_BUDGETS.get(name, OTHER_STEP_BUDGET))
        for name, values in steps.items()
        if name != "total_ms"
    ]
    queries = max((len(values) for values in steps.values()), default=0)
    paths = tuple(str(folder / name) for name in files)
    return Profile(summary.memories, queries, _largest_first(stages), _largest_first(found), paths)


def _profiler() -> "Profiler":
    from pyinstrument import Profiler

    return Profiler(interval=_INTERVAL_S)


def _search(home: Home) -> dict[str, list[float]]:
    """Searches golden questions in each scope, or its collection's name where there are none; returns steps' times."""
    steps: dict[str, list[float]] = {}
    with open_home(home.path, count_reads=False) as reader:
        scopes = sorted(s for s in reader.scope_sizes() if not s.project_id)
        for scope in scopes:
            golden = load_questions(data_folder(), scope.collection) or []
            texts = [q.question for q in golden if q.user in (None, scope.user_id)] or [scope.collection]
            for text in texts[: max(1, QUERIES // len(scopes))]:
                for step, ms in reader.search(text, Scope(*scope)).timings.items():
                    steps.setdefault(step, []).append(ms)
    return steps


def _largest_first(parts: list[Part]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda part: (-part.figure, part.name)))


def _line(part: Part, unit: str) -> str:
    outcome = "kept  " if part.is_kept else "missed"
    return f"{outcome}  {part.name.removesuffix('_ms'):<18}{part.figure:>8.1f} {unit}, at most {part.budget:.1f} {unit}"
