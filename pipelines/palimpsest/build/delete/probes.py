"""The strings that a delete must remove everywhere: searched all at once, and stored as hashes until it is proved."""

import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from palimpsest.core.files import read_json, write_json
from palimpsest.core.needles import WORD_BYTES, Buffer, Needle, Needles, encode_text, is_word, rows_containing

MIN_LINE_CHARS = 8  # a shorter line occurs elsewhere by chance
MIN_NAME_CHARS = 3


@dataclass(frozen=True)
class Probes:
    """Strings to search for. Lines and ids are found anywhere, names under 8 bytes as whole words.

    Attributes:
        strings: ids, lines and names, in plain text; in memory only.
        names: those of the strings that are names, which an error may show.
        earlier: those of a run of the same delete that was stopped, as hashes.
        too_short: how many lines and names are too short to be searched for.
        elsewhere: how many lines and names also occur in what is retained.
    """

    strings: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    earlier: Needles = field(default_factory=lambda: Needles.of(()))
    too_short: int = 0
    elsewhere: int = 0

    def __len__(self) -> int:
        return len(self._needles)

    def find(self, data: Buffer, min_length: int = 1) -> Iterator[tuple[int, int]]:
        """Yields (start, end) in bytes of what is found; `min_length` skips shorter strings."""
        if self.strings:
            for _, start, end in self._automaton.find_matches_as_indexes(data, overlapping=True):
                size = end - start
                if size >= min_length and (size >= WORD_BYTES or is_word(data, start, end)):
                    yield start, end
        if self._only_hashed.items:
            yield from ((a, b) for a, b, _ in self._only_hashed.find(data, min_length))

    def any_in(self, data: Buffer, min_length: int = 1) -> bool:
        """Returns whether `data` contains one of the strings."""
        return next(self.find(data, min_length), None) is not None

    def first_in(self, data: Buffer, min_length: int = 1) -> str | None:
        """Returns what of it `data` contains, as an error says it; only a name in its own words."""
        if (found := next(self.find(data, min_length), None)) is None:
            return None
        text = bytes(data[slice(*found)]).decode("utf-8", "replace")
        return f"the name {json.dumps(text, ensure_ascii=False)}" if text in self.names else "an id or a line of a text"

    def rows_in(self, rows: Sequence[str]) -> list[int]:
        """Returns the indexes of the rows that contain one of the strings, ascending."""
        return rows_containing(self.find, rows)

    def without(self, retained: Iterable[str]) -> "Probes":
        """Returns the probes that occur in none of the retained texts."""
        left, found = self.split(encode_text("\n".join(retained)))
        return replace(left, elsewhere=self.elsewhere + len(found.strings))

    def split(self, data: bytes) -> tuple["Probes", "Probes"]:
        """Returns the probes that `data` does not contain, and those that it contains."""
        found = frozenset(data[a:b].decode("utf-8", "surrogatepass") for a, b in self.find(data)) & self.strings
        hashed = self.earlier.found_in(data) if self.earlier.items else set()
        not_hashed = set(self.earlier.items) - hashed
        return (
            replace(self, strings=self.strings - found, earlier=self.earlier.without(hashed)),
            Probes(found, self.names & found, self.earlier.without(not_hashed)),
        )

    def union(self, other: "Probes") -> "Probes":
        """Returns the probes of both; those of earlier runs have the same key, or one has none."""
        earlier = self.earlier.union(other.earlier) if self.earlier.items and other.earlier.items else None
        earlier = earlier or (self.earlier if self.earlier.items else other.earlier)
        return Probes(self.strings | other.strings, self.names | other.names, earlier)

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
        return BytesAhoCorasick(sorted(encode_text(w) for w in written))

    def write_pending(self, path: Path, counts: Mapping[str, int], former: Iterable[str]) -> None:
        """Writes the probes as hashes, with counts of what is deleted, readable by the owner only.

        Args:
            path: the file.
            counts: of documents and memories.
            former: hashes of former names of what is deleted.
        """
        rows = [[n.window, n.bucket, n.length, n.digest] for n in self._needles.items]
        write_json(path, {"key": self.earlier.key.hex(), "needles": rows, "former": sorted(former), **counts})
        path.chmod(0o600)


def read_pending(path: Path) -> tuple[Needles, dict[str, int], frozenset[str]]:
    """Returns what a stopped run of the same delete wrote: its probes, its counts, and hashes of former names."""
    found = read_json(path) or {}
    if "key" not in found:  # of an older version: plain strings
        return Needles.of(found.get("strings", ())), {"documents": 0, "memories": found.get("memories", 0)}, frozenset()
    items = tuple(sorted(Needle(*row) for row in found["needles"]))
    counts = {k: found[k] for k in ("documents", "memories")}
    return Needles(bytes.fromhex(found["key"]), items), counts, frozenset(found.get("former", ()))


def probes_of(ids: set[str], lines: set[str], names: set[str], earlier: Needles) -> Probes:
    """Returns the probes for ids, lines and names; blank ones are dropped, short ones counted."""
    lines = {line for line in (text.strip() for text in lines) if line}
    names = {name for name in (text.strip() for text in names) if name}
    usable = {line for line in lines if len(line) >= MIN_LINE_CHARS}
    usable |= {name for name in names if len(name) >= MIN_NAME_CHARS}
    short = len((lines | names) - usable)
    return Probes(frozenset(ids | usable), frozenset(names & usable), earlier, short)
