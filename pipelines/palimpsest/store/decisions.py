"""People's decisions about a home: undo, confirm, names that are one or not, tombstones. Lines in `decisions.jsonl`.

The file is only appended to; a delete alone removes lines, those about a relation of a deleted memory and those about
the graph of a deleted scope. Decisions are an input of every build, like the ingest log: a rebuild applies them again.
Names that are one or not are stored as hashes, so that a delete need not rewrite them; `graph_decisions` has the lines
with text.
"""

import datetime as dt
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.core.files import lines_of, remove_lines
from palimpsest.core.ids import SCOPE, JsonObject, ScopeKey, content_id, entity_id
from palimpsest.core.needles import Needle, Needles, RowSearch
from palimpsest.store.graph_decisions import (
    GRAPH_KINDS,
    GraphDecision,
    GraphDecisionReader,
    graph_key,
)

# The lines of `decisions.jsonl`: each has a checksum of what it says; lines of earlier versions have none.

_SUM = "sum"


def sealed_line(row: Mapping[str, Any]) -> str:
    """Returns the line of a decision, with its checksum."""
    return json.dumps({**row, _SUM: _line_sum(row)}, ensure_ascii=False)


def parse_line(line: str) -> JsonObject:
    """Returns the decision of a line.

    Raises:
        ValueError: it is none, or was changed after it was written.
    """
    row = json.loads(line)
    if not isinstance(row, dict) or not {"kind", "target"} <= row.keys():
        raise ValueError("no decision")
    if row.pop(_SUM, None) not in (None, _line_sum(row)):
        raise ValueError("another checksum")
    return row


def decision_lines(path: Path) -> list[str]:
    """Returns the lines of the file, read as far as they can be; none where there is no file."""
    if not path.exists():
        return []
    return lines_of(path.read_text(encoding="utf-8", errors="replace"))


def count_decisions(path: Path) -> tuple[int, list[int]]:
    """Returns how many lines are decisions, and the numbers of those that are damaged."""
    lines = decision_lines(path)
    damaged = [number for number, line in enumerate(lines, 1) if not _is_decision(line)]
    return len(lines) - len(damaged), damaged


def drop_damaged(path: Path) -> None:
    """Removes the lines that are damaged."""
    remove_lines(path, lambda lines: [i for i, line in enumerate(lines) if not _is_decision(line)])


def _is_decision(line: str) -> bool:
    try:
        parse_line(line)
    except ValueError:
        return False
    return True


def _line_sum(row: Mapping[str, Any]) -> str:
    return content_id("decision", json.dumps(row, sort_keys=True, ensure_ascii=False))[:8]


# A deleted text as hashes, as `decisions.jsonl` keeps it.


class Utterance(NamedTuple):
    """Hashes of who said a text and when, and of the speaker alone, which lines of earlier versions do not have."""

    said: str
    speaker: str = ""


@dataclass(frozen=True, slots=True, order=True)
class ErasedText:
    """A deleted text as hashes: of its document, of its speaker and time, and of the text itself."""

    place: str
    utterance: Utterance
    needle: Needle

    @classmethod
    def of(cls, place: str, utterance: Utterance, text: str) -> "ErasedText":
        """Returns the hashes of a text at a place."""
        (needle,) = Needles.of([text], place.encode()).items
        return cls(place, utterance, needle)


# What was decided of single memories when a proposal of consolidation was confirmed.
#
# Lines of kind `memory` in `decisions.jsonl`, and of kind `memory_undo` that take one back. Both name the memories, so
# that a delete of one removes them.

MemoryAction = Literal["retire", "prune", "confidence"]
ACTIONS = get_args(MemoryAction)
MEMORY_KINDS = ("memory", "memory_undo")


@dataclass(frozen=True)
class MemoryDecision:
    """One decision about a memory.

    Attributes:
        proposal_id: the proposal that was confirmed.
        action: retire (another takes its place), prune (no longer served), confidence (its confidence is `value`).
        memory_id: the memory.
        by: the memory that takes its place.
        value: the confidence, 0 to 1.
        at: when it was decided, ISO 8601 in UTC.
        scope: of the memory: a decision is about no memory of another scope. None in lines of earlier versions.
    """

    proposal_id: str
    action: MemoryAction
    memory_id: str
    by: str = ""
    value: float | None = None
    at: str = ""
    scope: ScopeKey | None = None

    def to_row(self) -> JsonObject:
        """Returns the line of the decisions file, without its time."""
        row: JsonObject = {"kind": "memory", "target": self.proposal_id, "action": self.action}
        row |= {"memory_id": self.memory_id}
        row |= {"by": self.by} if self.by else {}
        row |= dict(zip(SCOPE, self.scope, strict=True)) if self.scope else {}
        return row | ({"value": self.value} if self.value is not None else {})

    def undo_row(self) -> JsonObject:
        """Returns the line that takes it back, without its time."""
        return {"kind": "memory_undo", "target": self.proposal_id, "memory_id": self.memory_id}

    def to_list(self) -> list[str]:
        """Returns the fields as texts, for a manifest."""
        value = "" if self.value is None else str(self.value)
        return [self.proposal_id, self.action, self.memory_id, self.by, value, self.at, *(self.scope or ())]

    @classmethod
    def from_list(cls, fields: Sequence[str]) -> "MemoryDecision":
        """Reads what `to_list` returns."""
        proposal, action, memory, by, value, at, *scope = fields
        return cls(proposal, action, memory, by, float(value) if value else None, at, tuple(scope) or None)  # type: ignore[arg-type]


class MemoryDecisionReader:
    """Collects the decisions that apply, line by line: an undo removes one."""

    def __init__(self) -> None:
        """Makes a reader of no line."""
        self._applied: dict[tuple[str, str], MemoryDecision] = {}

    def read(self, row: Mapping[str, Any]) -> None:
        """Reads a line of one of `MEMORY_KINDS`.

        Raises:
            ValueError: the action or the value is none; a KeyError or TypeError where a field is missing.
        """
        target = str(row["target"])
        key = target, str(row["memory_id"])  # a line takes back no decision about another memory
        self._applied.pop(key, None)
        if row["kind"] != "memory":
            return
        value = None if row.get("value") is None else float(row["value"])
        if row["action"] not in ACTIONS or not (value is None or 0.0 <= value <= 1.0):
            raise ValueError(row["action"])
        by, at = str(row.get("by") or ""), str(row.get("at") or "")
        scope = (str(row["collection"]), str(row["user_id"]), str(row["project_id"])) if "user_id" in row else None
        self._applied[key] = MemoryDecision(target, row["action"], key[1], by, value, at, scope)

    @property
    def applied(self) -> tuple[MemoryDecision, ...]:
        """The decisions that apply, in the order in which they were made."""
        return tuple(self._applied.values())


def memory_decisions_key(decisions: Iterable[MemoryDecision]) -> str:
    """Returns a hash of the decisions."""
    return content_id(*(" ".join(d.to_list()) for d in decisions))


Verdict = Literal["same", "apart", "undecided"]
NAME_KINDS = get_args(Verdict)
_FIX = "restore a backup, or go on without it with palimpsest build --allow-lost"
RELATION_KINDS = ("undo", "confirm", "withdraw")
EDITED = "edited"
ABOUT_MEMORIES = (*RELATION_KINDS, *MEMORY_KINDS, EDITED)


@dataclass(frozen=True)
class RelationOverride:
    """The label that a person gave to a pair of memories; it overrides the labeler in every build.

    `at` is the time of the decision as the file has it, ISO 8601, so that every build records the same. `part` has the
    spans of the older text that an UPDATE ends, as in the relations table; empty for all of it.
    """

    relation_id: str
    newer_id: str
    older_id: str
    label: str
    at: str = ""
    part: str = ""


@dataclass(frozen=True)
class Decisions:
    """What was decided: relation ids undone or confirmed, hashes of what was deleted, and pairs of names.

    `same` and `apart` are pairs of ids, as `core.ids.entity_id` gives them to a name in a scope.
    `relations` has the last override of each pair of memories, sorted by relation id. `graph` has what was decided of
    nodes and edges, in order; `memories` what was decided of single memories, `edited` what they were edited to.
    """

    undone: frozenset[str] = frozenset()
    confirmed: frozenset[str] = frozenset()
    tombstones: frozenset[str] = field(default_factory=frozenset)
    same: frozenset[tuple[str, str]] = frozenset()
    apart: frozenset[tuple[str, str]] = frozenset()
    relations: tuple["RelationOverride", ...] = ()
    erased: frozenset[ErasedText] = frozenset()
    graph: tuple[GraphDecision, ...] = ()
    memories: tuple[MemoryDecision, ...] = ()
    edited: Mapping[str, frozenset[ErasedText]] = field(default_factory=dict)

    def graph_key(self, collection: str) -> str:
        """Returns a hash of the decisions about nodes and edges of a collection: stage `nodes` alone applies them."""
        return graph_key(self.graph, collection)

    @property
    def paired(self) -> frozenset[tuple[str, str]]:
        """Pairs of ids that people decided about, ascending: names made one or set apart, nodes that were merged."""
        merged = ((d.node_id, d.other_id) for d in self.graph if d.action == "merge_nodes")
        return self.same | self.apart | {(min(pair), max(pair)) for pair in merged}

    @property
    def erased_key(self) -> str:
        """Returns a hash of what was deleted."""
        texts = (f"{e.place} {e.utterance.said} {e.needle.length} {e.needle.digest}" for e in sorted(self.erased))
        return content_id(*sorted(self.tombstones), *(("|", *texts) if self.erased else ()))

    @property
    def key(self) -> str:
        """Returns a hash of all decisions but those of nodes and edges, for the stages that apply them."""
        names = ("|", self.names_key) if self.same or self.apart else ()
        memories = ("|", memory_decisions_key(self.memories)) if self.memories else ()
        erased = [self.erased_key] if self.erased or self.tombstones else []
        return content_id(self.relations_key, *erased, *names, *memories)

    @property
    def names_key(self) -> str:
        """Returns a hash of the decisions about names: the stage that resolves them depends on no other."""
        pairs = (*sorted(self.same), ("|", "|"), *sorted(self.apart))
        return content_id(*(i for pair in pairs for i in pair))

    def names_in(
        self, scope: ScopeKey, keys: Iterable[str]
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

    @property
    def relations_key(self) -> str:
        """Returns a hash of the decisions about relations."""
        overrides = (f"{d.relation_id} {d.label} {d.at}{d.part}" for d in self.relations)
        return content_id(*sorted(self.undone), "|", *sorted(self.confirmed), "|", *overrides)

    def hides_source(self, collection: str, uri: str, content_hash: str) -> bool:
        """Returns whether a source was deleted, or all documents of a version of it with this content."""
        if not self.tombstones:
            return False
        excluding = {tombstone("document", collection, uri), tombstone("source", collection, uri, content_hash)}
        return not self.tombstones.isdisjoint(excluding)

    def hides_document(
        self, collection: str, user_id: str, uri: str, session_id: str | None, project_id: str | None
    ) -> bool:
        """Returns whether a document, what contains it, its session, its source or its user was deleted."""
        if not self.tombstones:
            return False
        parts = uri.split("#")  # an attachment is `<uri>#<its name>`
        containing = ("#".join(parts[:n]) for n in range(1, len(parts) + 1))
        excluding = {
            *(tombstone("document", collection, name) for name in containing),
            tombstone("document", collection, f"{uri}#{session_id}"),
            tombstone("user", user_id),
            tombstone("user", collection, user_id),
            tombstone("conversation", collection, user_id, uri, session_id or "", project_id or ""),
        }
        return not self.tombstones.isdisjoint(excluding)


def tombstone(*what: str) -> str:
    """Returns the hash that is stored for something deleted, so that its name need not be kept."""
    return content_id("tombstone", *what)


def read_decisions(path: Path) -> Decisions:
    """Reads the decisions file; later lines win over earlier ones about the same relation or pair of names.

    Raises:
        DamagedFile: a line is not a decision, or was changed after it was written; the message names the line.
        PalimpsestError: a line is of a kind that this version does not know.
    """
    relations: dict[str, str] = {}
    names: dict[tuple[str, str], str] = {}
    overrides: dict[str, RelationOverride] = {}
    tombstones: set[str] = set()
    erased: set[ErasedText] = set()
    edited: dict[str, set[ErasedText]] = {}
    graph, memories = GraphDecisionReader(), MemoryDecisionReader()
    for number, line in enumerate(decision_lines(path), 1):
        try:
            row = cast(dict[str, Any], parse_line(line))
            kind, target = row["kind"], row["target"]
            pair = _parse_pair(target) if kind in NAME_KINDS else ("", "")
            if kind == "erased":
                erased.add(_parse_erased(row))
            if kind == EDITED:
                edited.setdefault(str(target), set()).add(_parse_erased({**row, "target": row["place"]}))
            if kind in GRAPH_KINDS:
                graph.read(row)
            if kind in MEMORY_KINDS:
                memories.read(row)
            override = {k: str(row[k]) for k in ("newer_id", "older_id", "label")} if row.get("newer_id") else {}
            part = _part_of(row) if override else ""
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DamagedFile(path, f"line {number} is not a decision; {_FIX}") from None
        if kind in ("erased", EDITED) or kind in GRAPH_KINDS + MEMORY_KINDS:
            continue
        if kind == "tombstone":
            tombstones.add(target)
        elif kind in ("undo", "confirm"):
            relations[target] = kind
            overrides.pop(target, None)
            if override:
                overrides[target] = RelationOverride(target, **override, at=str(row.get("at") or ""), part=part)
        elif kind == "withdraw":
            relations.pop(target, None)
            overrides.pop(target, None)
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
        relations=tuple(overrides[r] for r in sorted(overrides)),
        erased=frozenset(erased),
        graph=graph.applied,
        memories=memories.applied,
        edited={memory_id: frozenset(texts) for memory_id, texts in edited.items()},
    )


def _parse_erased(row: Mapping[str, Any]) -> ErasedText:
    needle = Needle(int(row["window"]), int(row["bucket"]), int(row["length"]), str(row["digest"]))
    return ErasedText(str(row["target"]), Utterance(str(row["said"]), str(row.get("speaker", ""))), needle)


def _parse_pair(target: str) -> tuple[str, str]:
    a, b = sorted(target.split("+"))
    return a, b


def names_target(a: str, b: str) -> str:
    """Returns the target of a decision about two names, given by their ids."""
    return "+".join(sorted((a, b)))


def append_decisions(path: Path, kind: str, targets: Iterable[str]) -> None:
    """Appends one line for each target and syncs it to disk before returning."""
    _append(path, [{"kind": kind, "target": target} for target in targets])


def _part_of(row: Mapping[str, Any]) -> str:
    """Returns the spans of an override, empty for none.

    Raises:
        ValueError: they are not pairs of whole numbers.
    """
    part = str(row.get("part") or "")
    if part and not all(isinstance(n, int) and n >= 0 for start, end in json.loads(part) for n in (start, end)):
        raise ValueError("part")
    return part


def append_overrides(path: Path, kind: str, *overrides: RelationOverride) -> None:
    """Appends a person's overrides of relations, a line for each: `undo` or `confirm`, with the right label."""
    rows = [
        {name: value for name, value in asdict(d).items() if name != "at" and (name != "part" or value)}
        for d in overrides
    ]
    _append(path, [{"kind": kind, "target": row["relation_id"], **row} for row in rows])


def append_withdrawn(path: Path, override: RelationOverride) -> None:
    """Takes a person's override of a relation back: the labeler decides about the pair again."""
    ids = {"newer_id": override.newer_id, "older_id": override.older_id, "label": override.label}
    _append(path, [{"kind": "withdraw", "target": override.relation_id, **ids}])


def append_made(path: Path, *decisions: MemoryDecision | GraphDecision) -> None:
    """Appends what was decided of memories, or of nodes and edges, a line for each."""
    _append(path, [d.to_row() for d in decisions])


def append_undone(path: Path, *decisions: MemoryDecision | GraphDecision) -> None:
    """Takes decisions about memories, or about nodes and edges, back, a line for each."""
    _append(path, [d.undo_row() for d in decisions])


def append_erased(path: Path, texts: Iterable[ErasedText]) -> None:
    """Appends one line of hashes for each deleted text, so that no build restores it."""
    _append(path, [{"kind": "erased", "target": t.place, **_hashes(t)} for t in sorted(texts)])


def _hashes(text: ErasedText) -> dict[str, Any]:
    return text.utterance._asdict() | asdict(text.needle)


def append_edited(path: Path, memory_id: str, text: ErasedText) -> None:
    """Appends hashes of the words that a memory was edited to: a delete of it removes them too, built or not."""
    _append(path, [{"kind": EDITED, "target": memory_id, "place": text.place, **_hashes(text)}])


def append_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Appends decisions as lines of another home, each with the time at which it was made there."""
    if rows := list(rows):
        _append(path, rows)


def _append(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as f:
        for row in rows:
            f.write(sealed_line({"at": now, **row}) + "\n")
        f.flush()
        os.fsync(f.fileno())
    path.chmod(0o600)


# Removes the decisions about what is deleted.


def forget_overrides(path: Path, probes: RowSearch) -> int:
    """Removes the overrides of relations of deleted memories, and decisions about them; returns how many lines."""

    def find(lines: list[str]) -> list[int]:
        return [i for i in probes.rows_in(lines) if json.loads(lines[i])["kind"] in ABOUT_MEMORIES]

    return remove_lines(path, find)
