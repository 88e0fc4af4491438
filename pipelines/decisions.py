"""People's decisions about a home: undo, confirm, tombstones. Append-only lines in `<home>/decisions.jsonl`.

They are an input of every build, beside the ingest log: a rebuild applies them again.
"""

import datetime as dt
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.errors import PalimpsestError
from pipelines.store.ids import content_id


@dataclass(frozen=True)
class Decisions:
    """What was decided: relation ids undone or confirmed, and hashes of what was deleted."""

    undone: frozenset[str] = frozenset()
    confirmed: frozenset[str] = frozenset()
    tombstones: frozenset[str] = field(default_factory=frozenset)

    @property
    def key(self) -> str:
        """Returns a hash of all decisions, part of the cache key of the stages that apply them."""
        return content_id(*sorted(self.undone), "|", *sorted(self.confirmed), "|", *sorted(self.tombstones))

    def hides_document(self, collection: str, uri: str) -> bool:
        """Tells whether a source was deleted by `palimpsest delete --document`."""
        return tombstone("document", collection, uri) in self.tombstones

    def hides_user(self, user_id: str) -> bool:
        """Tells whether a user was deleted by `palimpsest delete --user`."""
        return tombstone("user", user_id) in self.tombstones


def tombstone(*what: str) -> str:
    """Returns the hash that stands for something deleted, so that its name need not be kept."""
    return content_id("tombstone", *what)


def read_decisions(path: Path) -> Decisions:
    """Reads the decisions file; later lines win over earlier ones about the same relation.

    Raises:
        PalimpsestError: a line is not a decision; the message names the line.
    """
    if not path.exists():
        return Decisions()
    relations: dict[str, str] = {}
    tombstones: set[str] = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            kind, target = row["kind"], row["target"]
        except (ValueError, KeyError, TypeError):
            raise PalimpsestError(f"decisions.jsonl: line {number} is not a decision; remove it ({path})") from None
        if kind == "tombstone":
            tombstones.add(target)
        elif kind in ("undo", "confirm"):
            relations[target] = kind
        else:
            raise PalimpsestError(f"decisions.jsonl: line {number}: unknown kind {kind!r} ({path})")
    return Decisions(
        undone=frozenset(r for r, k in relations.items() if k == "undo"),
        confirmed=frozenset(r for r, k in relations.items() if k == "confirm"),
        tombstones=frozenset(tombstones),
    )


def append_decisions(path: Path, kind: str, targets: Iterable[str]) -> None:
    """Appends one line for each target and syncs it to disk before returning."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as f:
        for target in targets:
            f.write(json.dumps({"at": now, "kind": kind, "target": target}) + "\n")
        f.flush()
        os.fsync(f.fileno())
    path.chmod(0o600)
