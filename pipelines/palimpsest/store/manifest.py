"""What a build records about itself, as typed records with one JSON form each: `manifest.json` and stage records.

The keys on disk are older than some names here: a record's `code_key` is written as `logic`, `cache_status` as `how`,
and the manifest's `stages` as `markers`. A manifest of an older version reads with what it has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypedDict, cast

from palimpsest.core.files import file_hash
from palimpsest.core.ids import JsonObject, JsonRecord

# Size, time of change and checksum of each file of a build, as its manifest lists them.

MANIFEST = "manifest.json"


class FileState(NamedTuple):
    """A file as it was recorded: bytes, nanoseconds of its change, BLAKE2b of its bytes."""

    size: int
    mtime_ns: int
    blake2b: str


def file_states(
    folder: Path, known: Mapping[str, FileState], hashes: Mapping[str, str] | None = None
) -> dict[str, FileState]:
    """Returns the state of each file below a folder but the manifest, by its relative name.

    Args:
        folder: of a build.
        known: what was recorded before; a file of the same size and time is not read again.
        hashes: checksums that are known from when the files were written.
    """
    found = {}
    for name, path in _files(folder):
        stat = path.stat()
        if (old := known.get(name)) is not None and old[:2] == (stat.st_size, stat.st_mtime_ns):
            found[name] = old
        else:
            found[name] = FileState(stat.st_size, stat.st_mtime_ns, (hashes or {}).get(name) or file_hash(path))
    return found


def changed_files(folder: Path, recorded: Mapping[str, FileState], read_all: bool) -> list[str]:
    """Returns the names of files that are missing or not as they were recorded, sorted.

    Args:
        folder: of a build.
        recorded: from its manifest.
        read_all: read every file; otherwise alone those whose time of change differs.
    """
    return [name for name in sorted(recorded) if _is_changed(folder / name, recorded[name], read_all)]


def has_hash(path: Path, blake2b: str) -> bool:
    """Returns whether a file is there and has this checksum; a file that did not change since is read once.

    Raises:
        PermissionError: this user may not read it.
    """
    try:
        stat = path.stat()
    except PermissionError:
        raise  # it is not damaged
    except OSError:
        return False
    return _hash_of(path, stat.st_size, stat.st_mtime_ns, stat.st_ino) == blake2b


def _is_changed(path: Path, state: FileState, read_all: bool) -> bool:
    try:
        stat = path.stat()
    except PermissionError:
        raise  # it is not damaged
    except OSError:
        return True
    if stat.st_size != state.size:
        return True
    return (read_all or stat.st_mtime_ns != state.mtime_ns) and file_hash(path) != state.blake2b


@lru_cache(maxsize=4096)
def _hash_of(path: Path, size: int, mtime_ns: int, inode: int) -> str:
    return file_hash(path)


def _files(folder: Path) -> list[tuple[str, Path]]:
    named = ((p.relative_to(folder), p) for p in folder.rglob("*") if p.is_file())
    return sorted(
        (name.as_posix(), path)
        for name, path in named
        if name.as_posix() != MANIFEST and not any(part.startswith(".") for part in name.parts)
    )


CacheStatus = Literal["done", "linked", "kept", "adopted"]
"""Whether a stage ran, took the published build's tables over, or was finished by a run that was stopped."""


@dataclass(frozen=True)
class Work:
    """What a stage did that costs money or minutes; an unchanged build does none of it."""

    embeddings: int = 0
    lm_calls: int = 0
    graph_writes: int = 0


@dataclass(frozen=True)
class StageRecord(JsonRecord):
    """What a finished stage recorded for one collection.

    Attributes:
        key: hash of code, settings and inputs: with the same key the same tables would be written.
        code_key: hash of code, settings and table schemas: with the same, an earlier result can be updated.
        outputs: hash of each table's bytes, by table.
        numbers: figures of the run, by name; those that end in `_s` are seconds.
        seconds: wall time.
        cache_status: how the tables came to be.
    """

    json_names: ClassVar = {"code_key": "logic", "cache_status": "how"}

    key: str
    code_key: str
    outputs: Mapping[str, str]
    work: Work = field(default_factory=Work)
    numbers: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    cache_status: CacheStatus = "done"

    @property
    def is_unpaid(self) -> bool:
        """Whether pairs were left unlabelled because the money was spent: the stage runs again, whatever its key."""
        return bool(self.numbers.get("unpaid"))

    def linked(self, cache_status: CacheStatus = "linked", seconds: float = 0.0) -> "StageRecord":
        """Returns the record where the tables are taken over as they are: no work, no seconds but those of linking.

        What the build itself paid before it was stopped, and keeps, stays a cost of this build.
        """
        none = ("_s",) if cache_status == "kept" else ("_s", "cost")
        numbers = {k: 0.0 if k.endswith(none) else v for k, v in self.numbers.items()}
        return replace(self, numbers=numbers, seconds=seconds, work=Work(), cache_status=cache_status)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "StageRecord":
        """Reads a record; figures that an older version did not write are zero."""
        empty = {"key": "", "code_key": "", "outputs": {}}
        work = {f.name: value.get("work", {}).get(f.name, 0) for f in fields(Work)}
        return cls(**{**empty, **_found(cls, value), "work": Work(**work)})


def _found(kind: type[JsonRecord], value: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a record that a JSON object has, by their names in Python."""
    names = {f.name: kind.json_names.get(f.name, f.name) for f in fields(cast(Any, kind))}
    return {name: value[key] for name, key in names.items() if key in value}


class CollectionSettings(TypedDict, total=False):
    """What the index records of a collection."""

    user_id: str
    default: bool
    unit: str
    has_formed: bool
    fields: dict[str, list[str]]


class IndexSettings(TypedDict, total=False):
    """What the index records of its collections, by name: their settings, strategies, weights and spaces of vectors."""

    model_id: str
    collections: dict[str, CollectionSettings]
    strategies: dict[str, str]
    weights: dict[str, dict[str, float]]
    spaces: dict[str, JsonObject]


class GateRecord(TypedDict, total=False):
    """The gate's answer; only `status` is there until a build is judged."""

    status: str
    reasons: list[str]
    warnings: list[str]
    summary: list[str]
    metrics: dict[str, float]
    settings_changed: list[str]
    embedders: list[str]


class ChangesRecord(TypedDict):
    """What a build changed: documents by kind of change, and the first of them by name."""

    counts: dict[str, int]
    documents: list[JsonObject]


@dataclass(frozen=True)
class BuildManifest(JsonRecord):
    """What a finished build is. All fields are empty where the build is unfinished.

    Attributes:
        fingerprints: hash of all inputs of each collection; None where the next build must look again.
        tail_code_key: hash of the code and judgments that index, report and gate depend on.
        digest: hash of what the tables say, without times, scores and vectors.
        undone: relations that were undone when the build was made; None in builds of older versions.
        decided: what was decided of memories when the build was made; None in builds of older versions.
        undated: memories without a time; None in builds of older versions.
        languages: number of memories in each language, by collection, of those with texts that are not in English.
        stages: records by collection and stage.
        configs: collection.yaml of each collection as it took effect.
        embedder: of collections that name none; empty where only the environment gave it.
        code: hash of the code of each stage, of the index and of the query path.
        index: seconds and counts of the index.
        tail_seconds: wall time of what follows the index, by name.
        changes: what differs from the build before; None for a first build.
        violations: invariants that the build breaks; None until they are checked.
        golden_runs: results of the golden questions by collection; None until they are run.
        files: size, time of change and checksum of each file of the build but the manifest, by name; empty in builds of
            older versions.
        decisions: lines of `decisions.jsonl` that the build was made with; 0 in builds of older versions.
    """

    json_names: ClassVar = {"tail_code_key": "tail_logic", "stages": "markers"}

    build_id: str = ""
    created_at: str = ""
    fingerprints: Mapping[str, str | None] = field(default_factory=dict)
    tail_code_key: str = ""
    digest: str = ""
    documents: int = 0
    chunks: int = 0
    memories: int = 0
    relations: Mapping[str, int] = field(default_factory=dict)
    retired: int = 0
    undone: list[str] | None = None
    decided: list[list[str]] | None = None
    rejects: int = 0
    undated: int | None = None
    languages: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    redactions: int | None = None
    not_stored: dict[str, int] | None = None
    stages: Mapping[str, Mapping[str, StageRecord]] = field(default_factory=dict)
    settings: IndexSettings = field(default_factory=IndexSettings)
    configs: Mapping[str, JsonObject] = field(default_factory=dict)
    labeler: str = ""
    embedder: str = ""
    code: Mapping[str, str] = field(default_factory=dict)
    index: Mapping[str, Any] = field(default_factory=dict)
    gate: GateRecord = field(default_factory=GateRecord)
    tail_seconds: Mapping[str, float] = field(default_factory=dict)
    changes: ChangesRecord | None = None
    violations: list[str] | None = None
    golden_runs: Mapping[str, JsonObject] | None = None
    files: Mapping[str, FileState] = field(default_factory=dict)
    decisions: int = 0

    def default_user(self, collection: str) -> str:
        """Returns the user whose memories a collection's sources are where they name none; empty where unknown."""
        return self.settings.get("collections", {}).get(collection, {}).get("user_id") or ""

    def to_json(self) -> JsonObject:
        """Returns the manifest as JSON values; what is not known yet is left out."""
        return {k: v for k, v in super().to_json().items() if v is not None or k not in _LEFT_OUT}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "BuildManifest":
        """Reads a manifest; fields that this version does not know are left out.

        Raises:
            AttributeError: a record was not written by `to_json`.
            TypeError: a field was not.
            ValueError: there is none.
        """
        if not value:
            raise ValueError("an empty manifest")
        found = _found(cls, value)
        found["files"] = {name: FileState(*state) for name, state in value.get("files", {}).items()}
        found["stages"] = {
            collection: {stage: StageRecord.from_json(record) for stage, record in stages.items()}
            for collection, stages in value.get("markers", {}).items()
        }
        manifest = cls(**found)
        for f in fields(cls):
            usual, actual = getattr(_EMPTY, f.name), getattr(manifest, f.name)
            if usual is not None and not isinstance(actual, Mapping if isinstance(usual, dict) else type(usual)):
                raise TypeError(f.name)
        return manifest


_EMPTY = BuildManifest()
_LEFT_OUT = ("violations", "golden_runs")
