"""People's decisions about a home: undo, confirm, names that are one or not, tombstones. Lines in `decisions.jsonl`.

The file is only appended to. Decisions are an input of every build, beside the ingest log: a rebuild applies them
again. Names are kept as hashes, so that a delete need not rewrite them.
"""

import datetime as dt
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from pipelines.errors import PalimpsestError
from pipelines.store.ids import content_id, entity_id

Verdict = Literal["same", "apart", "undecided"]
NAME_KINDS = get_args(Verdict)


@dataclass(frozen=True)
class Decisions:
    """What was decided: relation ids undone or confirmed, hashes of what was deleted, and pairs of names.

    `same` and `apart` hold pairs of ids, as `store.ids.entity_id` gives them to a name in a scope.
    """

    undone: frozenset[str] = frozenset()
    confirmed: frozenset[str] = frozenset()
    tombstones: frozenset[str] = field(default_factory=frozenset)
    same: frozenset[tuple[str, str]] = frozenset()
    apart: frozenset[tuple[str, str]] = frozenset()

    @property
    def key(self) -> str:
        """Returns a hash of all decisions, part of the cache key of the stages that apply them."""
        names = ("|", self.names_key) if self.same or self.apart else ()
        return content_id(*sorted(self.undone), "|", *sorted(self.confirmed), "|", *sorted(self.tombstones), *names)

    @property
    def names_key(self) -> str:
        """Returns a hash of the decisions about names: the stage that resolves them depends on no other."""
        pairs = (*sorted(self.same), ("|", "|"), *sorted(self.apart))
        return content_id(*(i for pair in pairs for i in pair))

    def names_in(
        self, scope: tuple[str, str], keys: Iterable[str]
    ) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """Returns the pairs of `keys` that were made one in this scope, and those that were set apart."""
        if not (self.same or self.apart):
            return (), ()
        key_of = {entity_id(*scope, k): k for k in keys}
        same, apart = (
            tuple(sorted((key_of[a], key_of[b]) for a, b in pairs if a in key_of and b in key_of))
            for pairs in (self.same, self.apart)
        )
        return same, apart

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
    """Reads the decisions file; later lines win over earlier ones about the same relation or pair of names.

    Raises:
        PalimpsestError: a line is not a decision; the message names the line.
    """
    if not path.exists():
        return Decisions()
    relations: dict[str, str] = {}
    names: dict[tuple[str, str], str] = {}
    tombstones: set[str] = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            kind, target = row["kind"], row["target"]
            pair = _pair(target) if kind in NAME_KINDS else ("", "")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise PalimpsestError(f"decisions.jsonl: line {number} is not a decision; remove it ({path})") from None
        if kind == "tombstone":
            tombstones.add(target)
        elif kind in ("undo", "confirm"):
            relations[target] = kind
        elif kind in NAME_KINDS:
            names[pair] = kind
        else:
            raise PalimpsestError(f"decisions.jsonl: line {number}: unknown kind {kind!r} ({path})")
    return Decisions(
        undone=frozenset(r for r, k in relations.items() if k == "undo"),
        confirmed=frozenset(r for r, k in relations.items() if k == "confirm"),
        tombstones=frozenset(tombstones),
        same=frozenset(p for p, k in names.items() if k == "same"),
        apart=frozenset(p for p, k in names.items() if k == "apart"),
    )


def _pair(target: str) -> tuple[str, str]:
    a, b = sorted(target.split("+"))
    return a, b


def names_target(a: str, b: str) -> str:
    """Returns the target of a decision about two names, given by their ids."""
    return "+".join(sorted((a, b)))


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
