"""Repairs the kept builds: tables from another build with the same bytes, the index from the tables.

A table that no build has any more is removed, so that nothing reads half of it, and its collection is made again; an
older build that cannot be repaired is removed. Builds share files by hard links, so damage is often in all of them.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from palimpsest.core.errors import DamagedFile, DamagedPointer
from palimpsest.core.files import FORMAT, FORMAT_FILE, check_format, link, read_format, write_format, write_pointer
from palimpsest.index.index_format import index_format
from palimpsest.index.write_index import write_index
from palimpsest.memories.embedders import indexed_spaces
from palimpsest.pipeline.finish import answer_standing_questions, finish_build, refusal
from palimpsest.pipeline.stages import collection_stages, indexed_tables
from palimpsest.store.builds import Build, BuildTables, kept_builds, published, remove_build
from palimpsest.store.collection_config import find_collections
from palimpsest.store.home import SOURCES_FILE, Home
from palimpsest.store.manifest import MANIFEST, BuildManifest, has_hash

# Writes small files of a home again that say nothing of its memories: folders, format, the copy of the tokenizer.


def repair_sources(home: Home, corpora: list[Path] | None) -> list[str]:
    """Records the folders of collections again where their list is damaged; returns a line for it.

    Raises:
        DamagedFile: the list is damaged, and no folders are given.
    """
    try:
        _ = home.sources
        return []
    except DamagedFile:
        if corpora is None:
            raise
        (home.path / SOURCES_FILE).unlink()
    own = home.path / "collections"
    found = find_collections([*corpora, *([own] if own.is_dir() else [])])
    home.write_sources({name: folder.resolve() for name, folder in found.items()})
    return [f"{SOURCES_FILE} was damaged; the folders of collections are those of --corpus"]


def repair_format(home: Home, build: Build) -> list[str]:
    """Records the format of a home again, as its index states it; returns a line where that was damaged."""
    if not is_format_damaged(home) or index_format(build.index) != FORMAT:
        return []
    write_format(home.path)
    return [f"{FORMAT_FILE} was damaged; it is written again"]


def damaged_settings(home: Home) -> list[Path]:
    """Returns those of these files that are damaged."""
    found = [home.path / FORMAT_FILE] if is_format_damaged(home) else []
    try:
        _ = home.sources
    except DamagedFile as e:
        found.append(e.path)
    return found


def is_format_damaged(home: Home) -> bool:
    """Returns whether a home records a format that cannot be read; homes of earlier versions record none."""
    return (home.path / FORMAT_FILE).exists() and read_format(home.path) is None


@dataclass(frozen=True)
class BuildRepair:
    """What was repaired, a line each, collections whose tables have to be made again, and what derives from tables."""

    lines: tuple[str, ...] = ()
    again: frozenset[str] = frozenset()
    derived: tuple[str, ...] = ()


def repair_published(home: Home, read_all: bool) -> BuildRepair:
    """Repairs the published build, and the pointer to it, as far as that needs no stage to run.

    Raises:
        DamagedFile: the manifest is damaged, and so is a table, or the settings of a collection are nowhere else; or
            the pointer is, and no build may be published.
    """
    lines = _repair_pointer(home)
    build = published(home)
    if build is None:
        return BuildRepair(tuple(lines))
    lines += [*_repair_manifest(home, build), *repair_format(home, build)]
    damaged = build.damaged_files(read_all)
    if not damaged:
        return BuildRepair(tuple(lines))
    again = set()
    for name in sorted(damaged, key=lambda n: PurePosixPath(n).suffix):  # records before tables
        path = PurePosixPath(name)
        if len(path.parts) == 1:
            continue
        if path.suffix == ".json":
            _rewrite_record(build, path)
            lines.append(f"build {build.build_id}: {name} was damaged; it is written again from the manifest")
        elif _take_from_another(home, build, path):
            lines.append(f"build {build.build_id}: {name} was damaged; another build has it")
        else:
            (build.path / name).unlink(missing_ok=True)
            again.add(path.parts[0])
            lines.append(f"build {build.build_id}: {name} was damaged; it is made again from the record")
    return BuildRepair(tuple(lines), frozenset(again), tuple(n for n in damaged if "/" not in n))


def repair_older(home: Home, read_all: bool = False) -> list[str]:
    """Repairs the builds before the published one; removes those that cannot be repaired. Returns a line for each."""
    current = published(home)
    lines = []
    for build in [b for b in kept_builds(home) if current is not None and b.build_id < current.build_id]:
        try:
            damaged = build.damaged_files(read_all) if build.is_finished else [MANIFEST]
        except DamagedFile:
            damaged = [MANIFEST]
        left = [name for name in damaged if not _repair_file(home, build, PurePosixPath(name))]
        if left:
            remove_build(build)
            lines.append(f"build {build.build_id}: removed, for {left[0]} is damaged; no reader sees it")
        elif damaged:
            build.write_manifest(build.manifest)
            lines.append(f"build {build.build_id}: {damaged[0]} was damaged; another build has it")
    return lines


def _repair_pointer(home: Home) -> list[str]:
    check_format(home.path)
    try:
        # A home that has its format recorded had a published build.
        if published(home) is not None or read_format(home.path) is None:
            return []
        error = None
    except DamagedPointer as e:
        error = e
    for build in reversed(kept_builds(home)):
        if build.is_finished and _may_be_published(build):
            write_pointer(home.path, build.build_id)
            return [f"published.json was damaged; readers see build {build.build_id}"]
    if error and not kept_builds(home):  # nothing is lost: what builds are made of is the log
        error.path.unlink()
        return ["no build is left; published.json is removed, and all is built again from the log"]
    if error:
        raise error
    return []


def _may_be_published(build: Build) -> bool:
    try:
        return not refusal(build.manifest)
    except DamagedFile:
        return False


def _repair_manifest(home: Home, build: Build) -> list[str]:
    """Writes a damaged manifest again from the tables and the records of their stages.

    Raises:
        DamagedFile: a table is damaged too, or the settings of a collection are nowhere else.
    """
    try:
        if build.is_finished:
            _ = build.manifest
            return []
    except DamagedFile:
        pass
    records = [(c, build.record(c, s.name)) for c in build.collections for s in collection_stages()]
    whole = bool(records) and all(r is not None and build.has_outputs(c, r) for c, r in records)
    if not whole or not all(home.folder_of(c) for c, _ in records):
        raise DamagedFile(build.path / MANIFEST, "restore a backup, or build into another --home")
    (build.path / MANIFEST).unlink(missing_ok=True)
    # No fingerprints: the next plan looks at every collection again.
    finish_build(home, build, BuildManifest())
    build.write_manifest(replace(build.manifest, fingerprints={}))
    return [f"build {build.build_id}: {MANIFEST} was damaged; it is written again from the tables"]


def _repair_file(home: Home, build: Build, path: PurePosixPath) -> bool:
    """Repairs a file of an older build; returns whether that was possible."""
    if path.suffix == ".json" and len(path.parts) == 2:
        _rewrite_record(build, path)
        return True
    if path.name.startswith("report."):
        (build.path / path).unlink(missing_ok=True)
        return True
    return path.suffix == ".parquet" and _take_from_another(home, build, path)


def _rewrite_record(build: Build, path: PurePosixPath) -> None:
    if (record := build.manifest.stages.get(path.parts[0], {}).get(path.stem)) is not None:
        build.write_record(path.parts[0], path.stem, record)


def _take_from_another(home: Home, build: Build, path: PurePosixPath) -> bool:
    """Takes a table from a build that recorded the same checksum and still has it; returns whether one does."""
    folder, table = path.parts[0], path.stem
    wanted = next((r.outputs[table] for r in build.manifest.stages[folder].values() if table in r.outputs), "")
    for other in _others(home, build):
        found = other.table_path(folder, table)
        if has_hash(found, wanted):
            aside = (build.path / path).with_name(f".{path.name}.tmp")
            link(found, aside)
            aside.replace(build.path / path)
            return True
    return False


def _others(home: Home, build: Build) -> Iterator[Build]:
    return (b for b in reversed(kept_builds(home)) if b.build_id != build.build_id)


def repair_derived(home: Home, damaged: Collection[str]) -> list[str]:
    """Writes what the published build derives from its tables again, and the state of its files.

    Args:
        home: the home; the tables and the vectors are whole.
        damaged: names of the files.

    Returns:
        A line for each.
    """
    build = published(home)
    assert build is not None
    lines = []
    if build.index.name in damaged:
        meta = {"build_id": build.build_id, **build.manifest.settings}
        write_index(BuildTables(build, indexed_tables()), indexed_spaces(home, build), build.index, meta)
        lines.append(f"build {build.build_id}: {build.index.name} was damaged; it is written again from the tables")
    if "standing.json" in damaged:
        (build.path / "standing.json").unlink(missing_ok=True)
        answer_standing_questions(home, build, None)
        lines.append(f"build {build.build_id}: standing.json was damaged; its questions are answered again")
    for name in damaged:
        if name.startswith("report."):
            (build.path / name).unlink(missing_ok=True)
            lines.append(f"build {build.build_id}: {name} was damaged and is removed; the next build writes its own")
    build.write_manifest(build.manifest)
    return lines
