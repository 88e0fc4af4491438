"""Checks that people's decisions are all there: without its lines, what they deleted would come back.

The manifest of a build has the number of lines that it was made with; lines are only added, and a delete counts again.
"""

from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.store.backup.snapshot import PENDING_DELETES
from palimpsest.store.builds import count_decisions_again, published
from palimpsest.store.decision_lines import count_decisions, drop_damaged
from palimpsest.store.home import Home


def describe_damage(home: Home) -> str:
    """Returns what is wrong with the decisions of a home; empty where nothing is."""
    good, damaged = count_decisions(home.decisions)
    if damaged:
        return f"line {damaged[0]} is damaged"
    expected = _expected(home)
    if good >= expected or any(home.path.glob(PENDING_DELETES)):
        return ""
    return f"{expected - good} of {expected} lines are missing"


def _expected(home: Home) -> int:
    try:
        build = published(home)
        return build.manifest.decisions if build else 0
    except DamagedFile:
        return 0  # the manifest is repaired first


def repair_decisions(home: Home, allow_lost: bool) -> list[str]:
    """Drops damaged decisions; returns a line where there are any.

    Raises:
        PalimpsestError: decisions are damaged or missing, and `allow_lost` is not given.
    """
    if not (what := describe_damage(home)):
        return []
    if not allow_lost:
        raise PalimpsestError(
            f"decisions.jsonl: {what}: what was undone, confirmed or deleted by it would come back; restore a backup "
            f"with palimpsest restore, or go on without with --allow-lost ({home.decisions})"
        )
    drop_damaged(home.decisions)
    count_decisions_again(home)
    return [f"decisions.jsonl: {what}; what was decided by it is lost"]
