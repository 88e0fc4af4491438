"""What a build will do: the collections of a home, and which of them changed since the published build."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from palimpsest.core.code import code_hash
from palimpsest.core.errors import DamagedFile, PalimpsestError
from palimpsest.core.files import SHIPPED, file_hash, hash_of_file, say
from palimpsest.core.ids import content_id
from palimpsest.memories.document_relations import check_relation_file
from palimpsest.memories.embedders import configured_space
from palimpsest.pipeline.stage import StageContext
from palimpsest.pipeline.stages import STAGES
from palimpsest.query import rerank
from palimpsest.query.ranking import merge
from palimpsest.sources.discovery import page_sources, scan_sources
from palimpsest.store.builds import published, staged
from palimpsest.store.collection_config import CollectionConfig, find_collections, load_collection, settings_or_none
from palimpsest.store.decisions import Decisions, read_decisions
from palimpsest.store.home import DEFAULT_CORPUS, Home, data_folder
from palimpsest.store.inbox import inbox_files
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.manifest import BuildManifest
from palimpsest.store.standing_questions import load_standing_questions, standing_questions_key
from palimpsest.store.web_pages import is_web_uri

_TAIL_MODULES = (
    "palimpsest.index.write_index",
    "palimpsest.entities.collection_shape",
    "palimpsest_eval.runs.judge_build",
)


_NOTHING_LOST: Mapping[str, PalimpsestError] = {}


@dataclass(frozen=True)
class Plan:
    """What a build will do.

    Attributes:
        home: the home.
        collections: folders of all collections that can be built, by name.
        changed: those whose inputs changed since the published build.
        tail_only: whether only the tail runs.
        broken: why other collections cannot be built, by name: what is published of them stays.
    """

    home: Home
    collections: dict[str, Path]
    changed: tuple[str, ...]
    tail_only: bool
    broken: Mapping[str, PalimpsestError] = field(default_factory=dict)

    @property
    def unchanged(self) -> list[str]:
        """The collections whose inputs are as the published build has them."""
        return [name for name in self.collections if name not in self.changed]

    @property
    def nothing_to_do(self) -> bool:
        """True where the published build is what a build would make again."""
        return not self.changed and not self.tail_only


def make_plan(
    home: Home,
    corpora: list[Path] | None,
    only: list[str] | None = None,
    again: Collection[str] = (),
    lost: Mapping[str, PalimpsestError] = _NOTHING_LOST,
) -> Plan:
    """Finds the collections and which of them changed; reads every source's bytes, and nothing else.

    Args:
        home: the home.
        corpora: folders of collections; None means the folders this home knows, or data/corpora for a new home.
        only: names of the collections to build; None means all of the corpora, and those of the home with something
            unread in its inbox or among its pages of the web.
        again: names of collections that are built although nothing changed.
        lost: why collections cannot be built although nothing is wrong with their sources, by name.

    Raises:
        PalimpsestError: a collection is missing, the home is inside it, or one that `only` names cannot be built.
        DamagedFile: a file of the home is damaged.
    """
    if corpora is None:
        is_here = any(f.is_dir() for f in home.sources.values())
        found = home.sources if is_here else find_collections([DEFAULT_CORPUS])
    else:
        found = find_collections(corpora, {folder.resolve(): name for name, folder in home.sources.items()})
    for name in only or ():
        if name not in found:
            raise PalimpsestError(f"--collection {name}: not in the corpus; it has {', '.join(found)}")
    wanted = {n: f for n, f in found.items() if not only or n in only}
    if not only:
        wanted = dict(sorted((_with_unread_inbox(home, lost) | _with_changed_pages(home, lost) | wanted).items()))
    for name, folder in wanted.items():
        if home.path.resolve().is_relative_to(folder.resolve()):
            raise PalimpsestError(f"home {home.path}: lies inside collection {name} ({folder}); choose another --home")
    current = published(home)
    manifest = current.manifest if current else BuildManifest()
    decisions, built = read_decisions(home.decisions), manifest.fingerprints
    changed, broken = [], dict[str, PalimpsestError]()
    for name, folder in wanted.items():
        try:
            if name in lost:
                raise lost[name]
            check_collection(folder)
            is_built = _is_built(home, name, folder, built.get(name), decisions)
        except PalimpsestError as e:
            if only or (isinstance(e, DamagedFile) and name not in lost):
                raise
            broken[name] = e
            continue
        changed += [name] if name in again or not is_built else []
    wanted = {n: f for n, f in wanted.items() if n not in broken}
    code_key = tail_code_key([*wanted, *(n for n in built if n not in wanted)])
    is_whole = current is not None and current.index.is_file()
    tail_only = not changed and (manifest.tail_code_key != code_key or not is_whole)
    return Plan(home, wanted, tuple(changed), tail_only, broken)


def check_collection(folder: Path) -> None:
    """Checks what people wrote of a collection, so that a mistake is reported before anything is built.

    Raises:
        PalimpsestError: its folder is gone, or its settings, its questions or its file of relations cannot be read.
    """
    if not folder.is_dir():
        raise PalimpsestError(f"its folder is gone; restore it, or palimpsest delete --collection NAME ({folder})")
    config = load_collection(folder)
    load_standing_questions(folder)
    check_relation_file(config, folder)


def say_what_is_broken(plan: Plan) -> None:
    """Says which collections cannot be built; where none can be, the last one's reason is raised instead.

    Raises:
        PalimpsestError: none can be.
    """
    last = [None, *plan.broken.values()][-1] if not plan.collections else None
    for name, why in plan.broken.items():
        if why is not last:
            say(f"collection {name} is not built: {why}")
    if last:
        raise last


def _with_unread_inbox(home: Home, lost: Collection[str]) -> dict[str, Path]:
    """Returns the collections of a home for which its inbox has a file that was not read yet."""
    folders = _folders_with(home, home.inbox, lost)
    read = {n: set(IngestLog(home.log / n).on_disk()["uri"]) for n in folders}
    return {n: f for n, f in folders.items() if any(file.uri not in read[n] for file in inbox_files(home.inbox, n))}


def _with_changed_pages(home: Home, lost: Collection[str]) -> dict[str, Path]:
    """Returns the collections of a home whose pages of the web are not as its log has them."""
    return {n: f for n, f in _folders_with(home, home.web, lost).items() if _has_changed_pages(home, n)}


def _folders_with(home: Home, place: Path, lost: Collection[str]) -> dict[str, Path]:
    """Returns the folders of the collections that have something in a place of the home and are not lost."""
    return {n: f for n, f in home.sources.items() if f.is_dir() and (place / n).is_dir() and n not in lost}


def _has_changed_pages(home: Home, name: str) -> bool:
    log = IngestLog(home.log / name)
    logged = {uri: key for uri, key in log.on_disk().iter_rows() if is_web_uri(uri)}
    return {uri: page.content_hash for uri, page in page_sources(home.web, name, log).items()} != logged


def stage_context(
    home: Home, name: str, folder: Path, max_cost: float | None = None, allow_removals: bool = False
) -> StageContext:
    """Returns what the stages of one collection run on: the staged build, based on the published one.

    Args:
        home: the home.
        name: the collection.
        folder: where its sources are.
        max_cost: money that a language model may cost in the whole build.
        allow_removals: build although too many sources or memories vanished.

    Raises:
        PalimpsestError: the folder's settings do not load, or have another name.
    """
    config = load_collection(folder)
    if config.name != name:
        raise PalimpsestError(f"collection.yaml: name is {config.name!r} now, was {name!r}; rename it back ({folder})")
    decisions = read_decisions(home.decisions)
    return StageContext(home, staged(home), published(home), config, folder, decisions, max_cost, allow_removals)


def log_context(home: Home, name: str) -> StageContext:
    """Returns what the stages of a collection run on where its sources are not read: its log, and its last settings.

    Raises:
        PalimpsestError: its folder is gone, and the published build does not have its settings.
    """
    if folder := home.folder_of(name):
        return stage_context(home, name, folder)
    current = published(home)
    if current is None or (config := current.config_of(name)) is None:
        raise PalimpsestError(
            f"collection {name}: its folder is gone, and the home does not have its settings; name it with --corpus"
        )
    where = home.sources.get(name) or Path()
    return StageContext(home, staged(home), current, config, where, read_decisions(home.decisions))


_SEARCH_MODELS = (rerank.MODEL_FILE, merge.MODEL_FILE)


def tail_code_key(collections: Iterable[str]) -> str:
    """Returns the hash of the code, models and judgments that the tail (index, report, gate) depends on."""
    judged = [
        file_hash(path) if path.exists() else ""
        for name in sorted(collections)
        for path in (data_folder() / "golden" / f"{name}.jsonl", data_folder() / "baselines" / f"{name}.json")
    ]
    models = [hash_of_file(SHIPPED / file) for file in _SEARCH_MODELS]
    stages = [stage.code for stage in STAGES.values() if stage.runs == "once"]
    return content_id(code_hash(_TAIL_MODULES), *models, *stages, *judged)


def logged_fingerprint(home: Home, name: str, decisions: Decisions) -> str | None:
    """Returns the fingerprint of a collection as its log has it; None where folder or settings are not there."""
    folder = home.sources.get(name)
    if folder is None or (config := settings_or_none(folder)) is None:
        return None
    sources = IngestLog(home.log / name).on_disk()
    return _fingerprint(home, config, folder, decisions, sources.iter_rows())


def _is_built(home: Home, name: str, folder: Path, built: str | None, decisions: Decisions) -> bool:
    """Returns whether published build and log have what is on disk: after an edit is undone, the log may be ahead."""
    config = load_collection(folder)
    log = IngestLog(home.log / name)
    state = scan_sources(folder, config, decisions, home.inbox, log, home.web)
    sources = ((uri, source.content_hash) for uri, source in state.items())
    on_disk = _fingerprint(home, config, folder, decisions, sources)
    if built != on_disk:
        return False
    return _fingerprint(home, config, folder, decisions, log.on_disk().iter_rows()) == on_disk


def _fingerprint(
    home: Home, config: CollectionConfig, folder: Path, decisions: Decisions, sources: Iterable[tuple[str, str]]
) -> str:
    """Hashes all that the stages of a collection depend on; `sources` gives (uri, content hash)."""
    relations = folder / config.document_relations if config.document_relations else None
    return content_id(
        config.model_dump_json(exclude={"overdue_hours"}),  # no table depends on it
        configured_space(home, config, folder).name,
        decisions.key,
        *([key] if (key := decisions.graph_key(config.name)) else []),
        *(part for s in STAGES.values() for part in (s.code, repr(s.environment()))),
        file_hash(relations) if relations and relations.is_file() else "",
        *standing_questions_key(folder),
        *(f"{uri}\0{content_hash}" for uri, content_hash in sorted(sources)),
    )
