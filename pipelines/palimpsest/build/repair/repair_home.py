"""Repairs a home before it is built, and finds every damaged file of one for `palimpsest verify`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from palimpsest.build.plan import log_context
from palimpsest.build.repair.repair_builds import repair_derived, repair_older, repair_published
from palimpsest.build.repair.repair_databases import damaged_history, is_ledger_damaged, repair_ledger
from palimpsest.build.repair.repair_decisions import describe_damage, repair_decisions
from palimpsest.build.repair.repair_log import damaged_inbox, damaged_marks, repair_logs
from palimpsest.build.repair.repair_settings import damaged_settings, repair_sources, repair_tokenizer
from palimpsest.build.run_stage import run_from_record
from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.core.progress import say
from palimpsest.memories.vector_store import embedding_stores, known_texts
from palimpsest.store.builds import ONCE, Build, kept, published
from palimpsest.store.checksums import MANIFEST
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.web_pages import damaged_pages


@dataclass
class Repairs:
    """What was repaired for a build.

    Attributes:
        lines: one for each repair, as they are printed.
        tables: collections that lost tables, which are made again from the record.
        sources: collections with sources that have to be read again.
        lost: why collections cannot be built: what their logs said is nowhere else.
    """

    lines: list[str] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    lost: dict[str, PalimpsestError] = field(default_factory=dict)

    @property
    def need_build(self) -> bool:
        """Whether something is missing until a build has made or read it again."""
        return bool(self.tables or self.sources)

    def add(self, lines: tuple[str, ...] | list[str]) -> None:
        """Prints and keeps lines; what was removed to be made again is not named once more."""
        for line in lines:
            if line not in self.lines:
                say(f"repaired: {line}")
                self.lines.append(line)


def repair_home(
    home: Home, corpora: list[Path] | None = None, allow_lost: bool = False, read_all: bool = False
) -> Repairs:
    """Looks for damage and repairs it.

    Args:
        home: the home, whose lock this process has.
        corpora: folders of collections, for a home whose list of them is damaged.
        allow_lost: forget what cannot be read again.
        read_all: read every file; otherwise those that changed since the published build was written.

    Raises:
        PalimpsestError: the record is damaged, and what it said is nowhere else.
    """
    repairs = Repairs()
    repairs.add([*repair_sources(home, corpora), *repair_tokenizer(home)])
    after_ns = 0 if read_all else _published_ns(home)
    done = repair_published(home, read_all)
    repairs.add(done.lines)
    repairs.tables |= done.again
    repairs.add([*repair_decisions(home, allow_lost), *repair_ledger(home, after_ns, allow_lost)])
    is_build_damaged = bool(done.lines or done.derived)
    repair_inputs(home, repairs, _collections(home), 0 if is_build_damaged else after_ns, allow_lost)
    if is_build_damaged and not repairs.tables and published(home) is not None:
        repairs.add(repair_derived(home, done.derived))
    repairs.add(repair_older(home, read_all) if not repairs.tables else [])
    return repairs


def repair_inputs(home: Home, repairs: Repairs, names: Iterable[str], after_ns: int, allow_lost: bool) -> None:
    """Repairs what the stages of collections read of the record: their logs, and all vectors."""
    done = repair_logs(home, set(names), after_ns, allow_lost)
    repairs.add(done.lines)
    repairs.sources |= done.again
    repairs.lost.update(done.lost)
    _repair_vectors(home, repairs, after_ns)


def _repair_vectors(home: Home, repairs: Repairs, after_ns: int) -> None:
    """Removes damaged parts of the stores of vectors; their texts are embedded again."""
    parts = [part for store in embedding_stores(home) for part in store.damaged(after_ns)]
    for part in parts:
        part.unlink()
        repairs.add([f"vectors {part.parent.name}/{part.name} were damaged; their texts are embedded again"])
    build = published(home)
    if not parts or build is None:
        return
    known = known_texts(home, build)
    for name in build.collections:
        texts = {h for t in ("embed_inputs", "context_inputs") for h in build.table(name, t)["text_hash"].drop_nulls()}
        if texts - known:
            repairs.tables.add(name)


def _published_ns(home: Home) -> int:
    """Returns when the manifest of the published build was written: what is older was whole, or was not noticed."""
    try:
        build = published(home)
    except DamagedFile:
        return 0
    return (build.path / MANIFEST).stat().st_mtime_ns if build is not None and build.is_finished else 0


def make_again(home: Home, names: set[str]) -> None:
    """Makes the tables of collections again from the record, into the staged build; their sources are not read."""
    for name in sorted(names - {ONCE}):
        run_from_record(log_context(home, name))


def find_damage(home: Home) -> list[str]:
    """Returns the names of all damaged files that checksums are known of, relative to the home; every file is read."""
    return sorted(str(path.relative_to(home.path)) for path in _damaged(home))


def _damaged(home: Home) -> Iterator[Path]:
    yield from damaged_settings(home)
    current = published(home)
    for build in kept(home):
        if current is None or build.build_id <= current.build_id:
            yield from _damaged_of(build)
    for name in sorted(_collections(home)):
        yield from _damaged_log(home, name, current)
    for store in embedding_stores(home):
        yield from (p for p in store.damaged() if p.is_relative_to(home.path))
    if describe_damage(home):
        yield home.decisions
    yield from damaged_history(home)
    if is_ledger_damaged(home):
        yield home.lm_ledger


def _damaged_log(home: Home, name: str, current: Build | None) -> Iterator[Path]:
    log = IngestLog(home.log / name)
    lists = log.damaged_lists()
    yield from (*lists, *damaged_marks(log))
    if any(path.name == "versions.parquet" for path in lists):
        return
    yield from (log.text_path(key) for key in log.damaged_texts())
    yield from (*damaged_inbox(home, log, name), *damaged_pages(home.web, name))
    if current is not None and not log.versions().height and current.table(name, "documents").height:
        yield log.folder / "versions.parquet"


def _damaged_of(build: Build) -> Iterator[Path]:
    if not build.is_finished:
        yield build.path / MANIFEST
    try:
        yield from (build.path / name for name in build.damaged_files(read_all=True))
    except DamagedFile as e:
        yield e.path


def _collections(home: Home) -> set[str]:
    """Returns the names of collections that have a log, or should have one."""
    build = published(home)
    logged = {p.name for p in home.log.glob("*") if p.is_dir()}
    return logged | set(build.collections if build else ())
