"""The strings that a delete must leave nowhere: searched all at once, and remembered as hashes until it is proved."""

import html
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from palimpsest.core.files import read_json, write_json
from palimpsest.core.needles import WORD, Buffer, Needle, Needles, encoded, is_word, rows_holding

SHORTEST_LINE = 8  # characters: a shorter line stands elsewhere by chance
SHORTEST_NAME = 3


@dataclass(frozen=True)
class Probes:
    """Strings to search for. Lines and ids are found anywhere, names under 8 bytes as whole words.

    Attributes:
        strings: ids, lines and names, in plain text; in memory only.
        earlier: those of a run of the same delete that was stopped, as hashes.
        too_short: lines and names that are too short to be searched for.
        elsewhere: lines and names that what stays holds too.
    """

    strings: frozenset[str] = frozenset()
    earlier: Needles = field(default_factory=lambda: Needles.of(()))
    too_short: int = 0
    elsewhere: int = 0

    def __len__(self) -> int:
        return len(self._needles)

    def find(self, data: Buffer, min_length: int = 1) -> Iterator[tuple[int, int]]:
        """Yields (start, end) in bytes of what is found; `min_length` leaves shorter strings out."""
        if self.strings:
            for _, start, end in self._automaton.find_matches_as_indexes(data, overlapping=True):
                size = end - start
                if size >= min_length and (size >= WORD or is_word(data, start, end)):
                    yield start, end
        if self._only_hashed.items:
            yield from ((a, b) for a, b, _ in self._only_hashed.find(data, min_length))

    def any_in(self, data: Buffer, min_length: int = 1) -> bool:
        """Tells whether `data` holds one of the strings."""
        return next(self.find(data, min_length), None) is not None

    def rows_in(self, rows: Sequence[str]) -> list[int]:
        """Returns the indexes of the rows that hold one of the strings, ascending."""
        return rows_holding(self.find, rows)

    def without(self, staying: Iterable[str]) -> "Probes":
        """Returns the probes that none of `staying` holds."""
        data = encoded("\n".join(staying))
        found = {bytes(data[a:b]).decode("utf-8", "surrogatepass") for a, b in self.find(data)}
        hashed = self.earlier.found_in(data) if self.earlier.items else set()
        left = self.strings - found
        elsewhere = self.elsewhere + len(self.strings) - len(left)
        return Probes(left, self.earlier.without(hashed), self.too_short, elsewhere)

    @cached_property
    def _needles(self) -> Needles:
        return Needles.of(self.strings, self.earlier.key).union(self.earlier)

    @cached_property
    def _only_hashed(self) -> Needles:
        return self.earlier.without(set(Needles.of(self.strings, self.earlier.key).items))

    @cached_property
    def _automaton(self) -> Any:
        """Finds the strings as files write them: plain, in JSON with and without escapes, in HTML."""
        from ahocorasick_rs import BytesAhoCorasick

        written = set(self.strings)
        for text in self.strings:
            if not text.isalnum():
                written |= {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], html.escape(text)}
        return BytesAhoCorasick(sorted(encoded(w) for w in written))

    def remember(self, path: Path, counts: dict[str, int]) -> None:
        """Writes the probes as hashes, with counts of what goes, readable by the owner only."""
        rows = [[n.window, n.bucket, n.length, n.digest] for n in self._needles.items]
        write_json(path, {"key": self.earlier.key.hex(), "needles": rows, **counts})
        path.chmod(0o600)


def remembered(path: Path) -> tuple[Needles, dict[str, int]]:
    """Returns what an earlier run of the same delete wrote: its probes, and its counts."""
    found = read_json(path) or {}
    if "key" not in found:  # of an older version: plain strings
        return Needles.of(found.get("strings", ())), {"documents": 0, "memories": found.get("memories", 0)}
    items = tuple(sorted(Needle(*row) for row in found["needles"]))
    return Needles(bytes.fromhex(found["key"]), items), {k: found[k] for k in ("documents", "memories")}


def probes_of(ids: set[str], lines: set[str], names: set[str], earlier: Needles) -> Probes:
    """Returns the probes for ids, lines and names; blank ones are dropped, short ones counted."""
    lines = {line for line in (text.strip() for text in lines) if line}
    names = {name for name in (text.strip() for text in names) if name}
    usable = {line for line in lines if len(line) >= SHORTEST_LINE}
    usable |= {name for name in names if len(name) >= SHORTEST_NAME}
    short = len((lines | names) - usable)
    return Probes(frozenset(ids | usable), earlier, short)
