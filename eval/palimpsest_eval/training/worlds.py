"""Small worlds in which things change, and the lists that the encoder is trained on: one newer note, several older.

A world is one scope: notes in order of date, the changes among them (which older note, or which part of it, a newer
note ends) and near pairs, which share a subject and end nothing. data/golden/worlds/README.md says who wrote them.
"""

import datetime as dt
import json
import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from palimpsest.memories.embed import load_embedder
from palimpsest.relations.labelers.change_encoder import Statement
from palimpsest.store.home import data_file

HELD_OUT_AUTHORS = frozenset(("crm",))
"""Authors of worlds that train nothing: the encoder is calibrated on theirs, and on a twelfth of the others'."""
_HELD_OUT_SHARE = 12
_LONG = 25  # notes from which a world is a long chat, in which almost nothing changes
_DATES = 0.85  # share of lists with dates
_WITHOUT = 0.15  # share of changes given without what they end
_RIGHT_JOINED, _OTHER_JOINED, _NEWER_JOINED = 0.3, 0.1, 0.12  # share of notes that say what another says too
_MAY_FOLLOW_AND = frozenset(("I", "The", "We", "My", "Our", "It", "There", "They", "He", "She", "A", "This"))


@dataclass(frozen=True)
class Note:
    """A note of a world."""

    text: str
    speaker: str | None
    date: dt.date

    @property
    def spoken(self) -> str:
        """The text after the name of who said it, where one did."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text

    def statement(self, *, dated: bool = True) -> Statement:
        """Returns it as the encoder reads it."""
        at = dt.datetime(self.date.year, self.date.month, self.date.day, tzinfo=dt.UTC) if dated else None
        return Statement(self.text, self.speaker or "", at)


@dataclass(frozen=True)
class Change:
    """Note `newer` ends note `older`, or the `part` of its text, and answers the question."""

    newer: int
    older: int
    part: str | None
    question: str = ""


@dataclass(frozen=True)
class World:
    """One scope."""

    world_id: str
    notes: Sequence[Note]
    changes: Sequence[Change]
    near: Sequence[tuple[int, int]]

    @property
    def is_held_out(self) -> bool:
        """Whether it trains nothing."""
        author = self.world_id.split("-")[0]
        return author in HELD_OUT_AUTHORS or zlib.crc32(self.world_id.encode()) % _HELD_OUT_SHARE == 0

    @cached_property
    def change_of(self) -> dict[int, Change]:
        """The change that each newer note makes."""
        return {c.newer: c for c in self.changes}

    def near_of(self, newer: int) -> list[int]:
        """Returns the older notes that a newer one is near to."""
        return [older for n, older in self.near if n == newer]


@dataclass(frozen=True)
class ChangeList:
    """One training example.

    Attributes:
        newer: the statement.
        older: the candidates.
        right: place of the one that it ends; None for none.
        part: (start, end) in the text of that one of what it ends; None for all of it.
    """

    newer: Statement
    older: Sequence[Statement]
    right: int | None
    part: tuple[int, int] | None = None


@dataclass(frozen=True)
class Candidate:
    """An older note, whether the newer one ends it, and (start, end) in its text of what ends; None for all."""

    note: Note
    is_right: bool
    part: tuple[int, int] | None = None


def load_worlds() -> list[World]:
    """Returns the worlds of data/golden/worlds, by id."""
    folder = data_file("golden/worlds/README.md").parent
    lines = (line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text(encoding="utf-8").splitlines())
    return sorted((_world(json.loads(line)) for line in lines), key=lambda w: w.world_id)


def _world(fields: dict) -> World:  # type: ignore[type-arg]
    notes = [Note(n["text"], n.get("speaker"), dt.date.fromisoformat(n["date"])) for n in fields["notes"]]
    changes = [Change(c["newer"], c["older"], c.get("part"), c.get("question", "")) for c in fields["changes"]]
    return World(fields["id"], notes, changes, [(n["newer"], n["older"]) for n in fields["near"]])


class ListMaker:
    """Makes lists of the notes of worlds: candidates are near pairs, the nearest notes, and some of other worlds."""

    def __init__(self, worlds: Sequence[World], embed: Callable[[Sequence[str]], np.ndarray], most: int = 10):
        """Makes it.

        Args:
            worlds: the worlds.
            embed: returns unit vectors of texts.
            most: candidates of a list.
        """
        self.worlds, self._most = worlds, most
        self._notes = [(w, n) for w in worlds for n in w.notes]
        self._vectors = embed([n.spoken for _, n in self._notes])
        starts = np.cumsum([0, *(len(w.notes) for w in worlds)])
        self._first = {w.world_id: int(s) for w, s in zip(worlds, starts[:-1], strict=True)}
        self._far = self._nearest_of_others(np.repeat(np.arange(len(worlds)), np.diff(starts)))

    def examples(self, rng: random.Random, none: float) -> list[tuple[World, int]]:
        """Returns (world, newer note) of one epoch: every change, most near notes, and a share of the others."""
        found = []
        for world in self.worlds:
            is_long, near = len(world.notes) > _LONG, {newer for newer, _ in world.near}
            for n in range(1, len(world.notes)):
                share = (0.6 if is_long else 0.8) if n in near else (0.35 if is_long else none)
                if n in world.change_of or rng.random() < share:
                    found.append((world, n))
        return found

    def training_list(self, world: World, newer: int, rng: random.Random) -> ChangeList:
        """Returns a list with candidates drawn at random."""
        change, ended = world.change_of.get(newer), -1
        if change and newer > 1 and change.older not in world.change_of and rng.random() < _WITHOUT:
            ended, change = change.older, None  # what it ends is not among the candidates: then it ends none of them
        must = [change.older] if change else []
        must += [o for o in world.near_of(newer) if o not in must][:2]
        chosen = self.nearest(world, newer, rng.randint(max(1, 2 * self._most // 5), self._most), must)
        chosen = [o for o in chosen if o != ended]
        if not must and len(chosen) > 3 and rng.random() < 0.3:
            chosen = sorted(rng.sample(chosen, len(chosen) // 2))
        older = [Candidate(world.notes[o], bool(change and o == change.older)) for o in chosen]
        if change:
            older = [_with_part(c, change.part) if c.is_right else c for c in older]
        older = _some_joined(older, rng)
        if rng.random() < 0.5:
            row = self._first[world.world_id] + newer
            for _ in range(min(rng.randint(1, 4), self._most - len(older))):
                other = self._notes[int(rng.choice(list(self._far[row])))][1]
                older.append(Candidate(replace(other, date=world.notes[rng.randrange(newer)].date), False))
        older.sort(key=lambda c: c.note.date)
        return _change_list(self._newer_note(world, newer, chosen, rng), older, dated=rng.random() < _DATES)

    def _newer_note(self, world: World, newer: int, chosen: Sequence[int], rng: random.Random) -> Note:
        """Returns the newer note, now and then one that says something else too."""
        note = world.notes[newer]
        excluded = {c.older for c in world.changes} | world.change_of.keys() | set(chosen) | {newer}
        others = [n for i, n in enumerate(world.notes) if i not in excluded and n.speaker == note.speaker]
        if not others or rng.random() >= _NEWER_JOINED:
            return note
        return _joined(note, rng.choice(others), rng)[0]

    def full_list(self, world: World, newer: int) -> ChangeList:
        """Returns the list as a build would make it: the nearest older notes of the world, oldest first."""
        change = world.change_of.get(newer)
        chosen = self.nearest(world, newer, self._most)
        older = [Candidate(world.notes[o], bool(change and o == change.older)) for o in chosen]
        if change:
            older = [_with_part(c, change.part) if c.is_right else c for c in older]
        return _change_list(world.notes[newer], older)

    def nearest(self, world: World, newer: int, count: int, must: Sequence[int] = ()) -> list[int]:
        """Returns the notes before one that are nearest to it, ascending; `must` are among them."""
        first = self._first[world.world_id]
        cosines = self._vectors[first : first + newer] @ self._vectors[first + newer]
        rest = [int(o) for o in np.argsort(-cosines, kind="stable") if o not in must]
        return sorted([*must, *rest[: max(0, count - len(must))]])

    def _nearest_of_others(self, world_of: np.ndarray) -> np.ndarray:
        found = np.zeros((len(self._vectors), 10), np.int64)
        for start in range(0, len(self._vectors), 1000):
            cosines = self._vectors[start : start + 1000] @ self._vectors.T
            cosines[world_of[start : start + 1000, None] == world_of[None, :]] = -1
            found[start : start + 1000] = np.argpartition(-cosines, 10, axis=1)[:, :10]
        return found


def embed_texts(texts: Sequence[str]) -> np.ndarray:
    """Returns unit vectors of texts by the embedder, shape (n, 384)."""
    return load_embedder().encode(list(texts))


def _with_part(candidate: Candidate, part: str | None) -> Candidate:
    if not part:
        return candidate
    start = candidate.note.text.find(part)
    return replace(candidate, part=(start, start + len(part)))


def _some_joined(older: Sequence[Candidate], rng: random.Random) -> list[Candidate]:
    """Returns the candidates of which some say what another says too, as a turn of two sentences does."""
    rest = list(older)
    for candidate in older:
        others = [c for c in rest if not c.is_right and c is not candidate and c.note.speaker == candidate.note.speaker]
        if candidate not in rest or not others:
            continue
        if rng.random() < (_RIGHT_JOINED if candidate.is_right else _OTHER_JOINED):
            other = rng.choice(others)
            note, start = _joined(candidate.note, other.note, rng)
            part = candidate.part or (0, len(candidate.note.text.rstrip(".")))
            shifted = (part[0] + start, part[1] + start) if candidate.is_right else None
            rest = [c for c in rest if c is not other]
            rest[rest.index(candidate)] = Candidate(note, candidate.is_right, shifted)
    return rest


def _joined(note: Note, other: Note, rng: random.Random) -> tuple[Note, int]:
    """Returns a note that says both in one text, and where the first begins in it."""
    first, second = (note.text, other.text) if rng.random() < 0.5 else (other.text, note.text)
    opening = second.split(" ", 1)[0]
    if first.endswith(".") and opening in _MAY_FOLLOW_AND and rng.random() < 0.5:
        start = len(first) - 1 + len(" and ")
        text = f"{first[:-1]} and {second if opening == 'I' else second[0].lower() + second[1:]}"
    else:
        start, text = len(first) + 1, f"{first} {second}"
    return replace(note, text=text), start if second is note.text else 0


def _change_list(newer: Note, older: Sequence[Candidate], dated: bool = True) -> ChangeList:
    right = next((place for place, c in enumerate(older) if c.is_right), None)
    part = None if right is None else older[right].part
    return ChangeList(newer.statement(dated=dated), [c.note.statement(dated=dated) for c in older], right, part)
