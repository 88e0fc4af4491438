"""What people should know of a build that did not stop it, by kind: the one declaration, for all that shows it.

Each kind is a check of a stage's asset that warns, and a line for each thing it finds, in the same words in the run's
log, the output of `palimpsest build` and the report: `kind: collection/source: what and what to do`.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import polars as pl

from palimpsest.lm.run_program import UNREAD
from palimpsest.query.request.types import LAST_GOOD
from palimpsest.relations.labelers.label_types import UNPAID
from palimpsest.sources.discovery import deleted_sources
from palimpsest.store.builds import Build
from palimpsest.store.collection_config import settings_or_none
from palimpsest.store.decisions import read_decisions
from palimpsest.store.home import Home
from palimpsest.text.parse import MAX_PARSED_CHARACTERS

MAX_LINES = 20
"""Of each kind; the rest is counted."""
_UNDATED_SHARE = 0.5
_UNLABELLED = ("abstain", UNPAID)

Find = Callable[[Home, Build, str], list[tuple[str, str]]]
"""Returns (source, what) for each thing of a kind in a collection of a build; the source is empty for all of it."""


@dataclass(frozen=True)
class Warned:
    """A thing that people should know."""

    kind: str
    collection: str
    source: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {'/'.join(filter(None, (self.collection, self.source)))}: {self.what}"


@dataclass(frozen=True)
class Kind:
    """A kind of warning.

    Attributes:
        name: of it, as lines begin.
        check: name of the check.
        stage: whose asset has the check.
        passes: when the check passes, for the UI.
        find: finds what there is.
    """

    name: str
    check: str
    stage: str
    passes: str
    find: Find

    def of(self, home: Home, build: Build, collection: str) -> list[Warned]:
        """Returns what there is of this kind in a collection of a build."""
        return [Warned(self.name, collection, *found) for found in self.find(home, build, collection)]


def _rejected(home: Home, build: Build, collection: str) -> list[tuple[str, str]]:
    rows = build.table(collection, "rejects").filter(~pl.col("is_kept").fill_null(False))
    return rows.select("uri", "reason").rows()


def _last_good(home: Home, build: Build, collection: str) -> list[tuple[str, str]]:
    rows = build.table(collection, "rejects").filter("is_kept").select("uri", "reason")
    return [(uri, f"{why}; its last good version is served: fix or remove the file") for uri, why in rows.iter_rows()]


def _skipped(home: Home, build: Build, collection: str) -> list[tuple[str, str]]:
    folder = home.folder_of(collection)
    if folder is None or (config := settings_or_none(folder)) is None:
        return []
    return [
        (uri, "deleted, and still on disk") for uri in deleted_sources(folder, config, read_decisions(home.decisions))
    ]


def _abstained(home: Home, build: Build, collection: str) -> list[tuple[str, str]]:
    relations = build.table(collection, "relations").filter(pl.col("labeler") != "person")
    rule = pl.col("evidence").str.json_path_match("$.rule")
    ids = relations.filter(rule.is_in(_UNLABELLED))["relation_id"].sort()
    return [("", f"the labeler did not decide relation {i}; palimpsest review --why abstained shows it") for i in ids]


def _undated(home: Home, build: Build, collection: str) -> list[tuple[str, str]]:
    observed = build.table(collection, "memories")["observed_at"]
    if observed.null_count() <= _UNDATED_SHARE * len(observed):
        return []
    count = f"{observed.null_count()} of {len(observed)} memories have no date"
    return [("", f"{count}: they replace nothing and are not replaced; docs/sources.md lists what dates a source")]


def _truncated(home: Home, build: Build, collection: str) -> list[tuple[str, str]]:
    long = build.table(collection, "memories").filter(pl.col("text").str.len_chars() > MAX_PARSED_CHARACTERS)
    uris = build.table(collection, "documents").select("document_id", "uri")
    counts = long.join(uris, on="document_id").group_by("uri").len().sort("uri")
    what = f"facts are read in the first {MAX_PARSED_CHARACTERS:,} characters of a memory;"
    return [(uri, f"{what} longer ones: {number}") for uri, number in counts.iter_rows()]


def _unread(stage: str, what: str) -> Find:
    """Returns what finds the texts that the language model of a stage gave no answer to, by reason."""

    def find(home: Home, build: Build, collection: str) -> list[tuple[str, str]]:
        record = build.record(collection, stage)
        numbers = record.numbers if record else {}
        counts = {k.removeprefix(UNREAD): n for k, n in numbers.items() if k.startswith(UNREAD) and n}
        return [("", f"the language model read {n:.0f} {what} not: {reason}") for reason, n in sorted(counts.items())]

    return find


REJECTED = Kind("rejected", "rejects", "documents", "Every source and each of its parts can be read.", _rejected)
KINDS = (
    REJECTED,
    Kind(LAST_GOOD, "last_good_versions", "documents", "No source is served as it was before it broke.", _last_good),
    Kind("skipped", "skipped_sources", "documents", "No source that was deleted is still on disk.", _skipped),
    Kind("undated", "undated_collection", "memories", "Half of the memories or more have a date.", _undated),
    Kind("abstained", "abstained_labels", "relations", "The labeler decided each pair.", _abstained),
    Kind("unread", "unread_sessions", "notes", "A model answered each session.", _unread("notes", "sessions")),
    Kind("unread", "unread_memories", "facts", "A model answered each memory.", _unread("facts", "memories")),
    Kind("truncated", "truncated_texts", "facts", "Every memory is read to its end for facts.", _truncated),
)


def build_warnings(home: Home, build: Build) -> list[Warned]:
    """Returns what people should know of a build, by kind and collection."""
    return [found for name in build.collections for found in collection_warnings(home, build, name)]


def collection_warnings(home: Home, build: Build, collection: str) -> list[Warned]:
    """Returns what people should know of a collection of a build, by kind; what is not made yet has none."""
    return [found for kind in KINDS for found in kind.of(home, build, collection)]


def warning_lines(found: Iterable[Warned]) -> list[str]:
    """Returns a line for each warning: the first 20 of each kind, then how many more there are."""
    by_kind: dict[str, list[str]] = {}
    for warned in found:
        by_kind.setdefault(warned.kind, []).append(str(warned))
    lines = []
    for kind, of_kind in by_kind.items():
        lines += of_kind[:MAX_LINES]
        lines += [f"{kind}: … and {len(of_kind) - MAX_LINES} more"] if len(of_kind) > MAX_LINES else []
    return lines


def warning_counts(found: Iterable[Warned]) -> dict[str, int]:
    """Returns how many warnings there are of each kind that has some."""
    return dict(Counter(warned.kind for warned in found))


def warning_summary(found: Iterable[Warned]) -> str:
    """Returns the counts in words, such as `2 rejected, 1 skipped`; empty where there is none."""
    return ", ".join(f"{number} {kind}" for kind, number in warning_counts(found).items())
