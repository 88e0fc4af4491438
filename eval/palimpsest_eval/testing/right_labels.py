"""A model that labels rightly: it finds the texts that a request shows in small worlds whose changes are known.

A world is a scope of notes in which newer notes end older ones, or parts of them. What is wrong in a home that was
built with it was lost on the way.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NotRequired, TypedDict

from palimpsest.core.ids import JsonObject
from palimpsest_eval.testing.fake_lm_server import program_answer, prompt_field

_NUMBERED = re.compile(r"^\[(\d+|m\d+)\] (.*)$", re.MULTILINE)
_CONFIDENCE = 0.95


class Note(TypedDict):
    """A note of a world."""

    n: int
    text: str


class Change(TypedDict):
    """A newer note, by its place, ends an older one, or the part of it that is quoted."""

    newer: int
    older: int
    part: str | None
    said: NotRequired[str]


class World(TypedDict):
    """A scope: its notes in order, and its changes."""

    id: str
    notes: list[Note]
    changes: list[Change]


class _Quotes(NamedTuple):
    older: str
    newer: str


class RightLabels:
    """Answers the messages of a request, for `FakeLMServer(chat=...)`: labels, and contradictions of consolidation."""

    def __init__(self, worlds: Sequence[World]):
        self._changes: dict[str, dict[str, _Quotes]] = {}
        for world in worlds:
            texts = [" ".join(note["text"].split()) for note in world["notes"]]
            for change in world["changes"]:
                newer, older = texts[change["newer"]], texts[change["older"]]
                quotes = _Quotes(change["part"] or older, change.get("said") or newer)
                self._changes.setdefault(newer, {})[older] = quotes

    @classmethod
    def of_file(cls, path: Path) -> "RightLabels":
        """Reads a JSONL file of worlds."""
        return cls([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])

    def __call__(self, messages: Sequence[str]) -> str:
        """Returns the answer in the form that the last message wants."""
        prompt = messages[-1]
        if memories := prompt_field(prompt, "memories"):
            answer: JsonObject = {"contradictions": self._contradictions(memories), "connections": [], "notes": []}
        elif numbered := _NUMBERED.findall(prompt_field(prompt, "older")):
            answer = {"relations": self._relations(prompt_field(prompt, "newer"), numbered)}
        else:
            answer = self._relation(prompt_field(prompt, "newer"), prompt_field(prompt, "older"))
        return program_answer(answer, as_json="JSON object" in prompt)

    def _relation(self, newer: str, older: str) -> JsonObject:
        """Returns the answer about one older note."""
        quotes = self._changes.get(" ".join(newer.split()), {}).get(" ".join(older.split()))
        older_quote, newer_quote = quotes or (older, newer)
        label, conflict = ("UPDATE", "dynamic") if quotes else ("NONE", "none")
        answer: JsonObject = {"older_quote": older_quote, "newer_quote": newer_quote, "label": label}
        return answer | {"confidence": _CONFIDENCE, "conflict": conflict}

    def _relations(self, newer: str, numbered: Sequence[tuple[str, str]]) -> list[JsonObject]:
        """Returns the answer about several: those that the newer note ends."""
        ended = self._changes.get(" ".join(newer.split()), {})
        found = [(int(number), _shown(line, ended)) for number, line in numbered]
        return [{"number": number} | self._relation(newer, older) for number, older in found if older]

    def _contradictions(self, memories: str) -> list[JsonObject]:
        """Returns the pairs of labelled memories of which one ends the other."""
        lines = _NUMBERED.findall(memories)
        return [
            {
                "memories": [old_label, new_label],
                "kind": "dynamic",
                "quotes": list(self._changes[newer][older]),
                "confidence": _CONFIDENCE,
            }
            for new_label, line in lines
            if (newer := _shown(line, self._changes))
            for old_label, other in lines
            if (older := _shown(other, self._changes[newer]))
        ]


def _shown(line: str, texts: Mapping[str, object]) -> str:
    """Returns which of some texts a line ends with, after its date and speaker; empty for none."""
    return next((text for text in texts if line == text or line.endswith((f": {text}", f" {text}"))), "")
