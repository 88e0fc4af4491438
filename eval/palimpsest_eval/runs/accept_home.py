"""`palimpsest baseline accept`: the run of a home's newest build becomes the baseline of each collection."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.progress import counted
from palimpsest.store.builds import staged
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home, data_folder, home_option
from palimpsest_eval.gate.baseline import Baseline, accept_baseline, baseline_path, load_baseline, named
from palimpsest_eval.golden.build_tables import JUDGED_TABLES
from palimpsest_eval.runs.judge_build import build_to_judge, run_collection


@dataclass(frozen=True)
class AcceptedBaseline:
    """A baseline that was written: its file, and the questions of the one before that it does not have."""

    path: Path
    build_id: str
    dropped: tuple[str, ...] = ()

    def text(self) -> str:
        """Returns the file, and the questions that are left out from now on."""
        if not self.dropped:
            return f"wrote {self.path}"
        dropped = f"{counted(len(self.dropped), 'question')} of the one before: {named(self.dropped)}"
        return f"wrote {self.path}\n  without {dropped}"


def accept_home(home: Home, why: str) -> list[AcceptedBaseline]:
    """Writes the run of the staged, else the published build as the baseline of each collection that has questions.

    Raises:
        PalimpsestError: no collection has a golden set, or a run may not be a baseline.
    """
    build = build_to_judge(home)
    tables = build.tables(JUDGED_TABLES)
    written = []
    for name in build.collections:
        if (run := run_collection(build, name, tables, read_decisions(home.decisions))) is not None:
            path = baseline_path(data_folder(), name)
            before = _earlier_baseline(path)
            accepted = accept_baseline(run, path, why)
            dropped = before.question_ids - {*run.questions} if before else ()
            written.append(AcceptedBaseline(path, accepted.build_id, tuple(sorted(dropped))))
    if not written:
        raise PalimpsestError(
            f"baseline accept: no golden set for {', '.join(build.collections)}; palimpsest gate --init drafts one"
        )
    return written


def _earlier_baseline(path: Path) -> Baseline | None:
    try:
        return load_baseline(path)
    except PalimpsestError:
        return None  # accepting replaces a damaged baseline


def next_steps(home: Home, accepted: Sequence[AcceptedBaseline]) -> str:
    """Returns what to do after accepting: commit the files, and publish what waits for them."""
    files = " ".join(str(a.path) for a in accepted)
    waiting = staged(home)
    publish = (
        f"; then palimpsest build{home_option(home)} publishes build {waiting.build_id}" if waiting.is_finished else ""
    )
    return f"next: git add {files} and commit{publish}; from now on the gate judges by what was accepted"
