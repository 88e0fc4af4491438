"""`palimpsest verify`: every invariant that a home at rest can show."""

from dataclasses import dataclass

from palimpsest.build.delete.target import unfinished_deletes
from palimpsest.build.repair.repair_home import find_damage
from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.core.json_types import JsonObject
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from palimpsest_eval.gate.invariants import Violation, report
from palimpsest_eval.runs.judge_build import find_violations

_DAMAGED = "{n} files are damaged or missing; run palimpsest build --repair, which repairs what it can"
_UNFINISHED = "{n} deletes were begun and not finished; run the same palimpsest delete again"


@dataclass(frozen=True)
class Verification:
    """The invariants that a published build breaks; none means that it keeps all that can be checked."""

    build_id: str
    digest: str
    violations: tuple[Violation, ...]

    @property
    def lines(self) -> list[str]:
        """One line for each violation."""
        return [v.text for v in self.violations]

    def to_json(self) -> JsonObject:
        """Returns `{"build_id", "digest", "violations": [line..], "details": [..]}`."""
        return {
            "build_id": self.build_id,
            "digest": self.digest,
            "violations": self.lines,
            "details": [v.to_json() for v in self.violations],
        }


def verify_home(home: Home) -> Verification:
    """Checks every invariant that a home at rest can show, on the published build.

    Raises:
        PalimpsestError: nothing is published.
    """
    build = published(home)
    if build is None or not build.is_finished:
        raise PalimpsestError(f"home {home.path}: it has no published build; run palimpsest build --home {home.path}")
    damaged = report(7, "files", _DAMAGED, find_damage(home))
    try:
        digest, broken = build.manifest.digest, find_violations(home, build)
    except DamagedFile:
        digest, broken = "", []  # it is among the damaged files
    unfinished = report(4, "finished_deletes", _UNFINISHED, unfinished_deletes(home))
    return Verification(build.build_id, digest, (*damaged, *broken, *unfinished))
