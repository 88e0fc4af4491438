"""Makes a collection of an export: its folder with settings, and its ingest log with every version."""

import json
import shutil
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.core.ids import content_id
from palimpsest.core.json_types import JsonObject
from palimpsest.core.times import parse_time
from palimpsest.export.layout import settings_file
from palimpsest.export.read_export import ExportFolder
from palimpsest.memories.embedders.space import BGE_SMALL, MINILM
from palimpsest.sources.records.document_row import DocumentRow
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.home import Home
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.standing_questions import QUESTIONS_FILE, load_standing_questions

_RELATIONS_FILE = "document-relations.jsonl"
_PLAIN_EMBEDDERS = (MINILM, BGE_SMALL)
_OF_ANOTHER_HOME = ("users", "include", "document_relations")
DocumentKey = tuple[str, str | None, str]
"""(uri, session, project): the versions of one document have the same."""


@dataclass(frozen=True)
class NewCollection:
    """A collection of an export that was checked and is not written yet.

    Attributes:
        config: its settings.
        settings: what of them is written.
        relations: lines of its file of relations.
        questions: its standing questions.
        sources: by uri, the versions with their documents.
    """

    config: CollectionConfig
    settings: JsonObject
    relations: list[JsonObject]
    questions: list[JsonObject]
    sources: dict[str, list[tuple[JsonObject, list[DocumentRow]]]]

    @property
    def documents(self) -> int:
        """Number of document versions."""
        return sum(len(rows) for versions in self.sources.values() for _, rows in versions)

    def without(self, keys: Set[DocumentKey]) -> "NewCollection":
        """Returns it without every version of these documents."""
        sources = {
            uri: [(v, [r for r in rows if document_key(r) not in keys]) for v, rows in versions]
            for uri, versions in self.sources.items()
        }
        left = {uri: versions for uri, versions in sources.items() if any(rows for _, rows in versions)}
        return NewCollection(self.config, self.settings, self.relations, self.questions, left)


def document_key(row: Mapping[str, Any]) -> DocumentKey:
    """Returns what the versions of one document share, inside a collection and user."""
    return row["uri"], row["session_id"], row["project_id"] or ""


def read_collection(export: ExportFolder, collection: str, name: str) -> NewCollection:
    """Reads and checks a collection of an export.

    Args:
        export: the export.
        collection: its name there.
        name: its name in this home.

    Raises:
        PalimpsestError: something of it cannot be used; the message names file and field.
    """
    file = settings_file(collection)
    found = cast(dict[str, Any], export.read(file))
    settings = {k: v for k, v in found["settings"].items() if k not in _OF_ANOTHER_HOME}
    settings |= {"name": name, "user_id": export.user}
    if settings.get("embedder") not in (None, *_PLAIN_EMBEDDERS):
        raise PalimpsestError(
            f"{file}: embedder {str(settings['embedder'])[:60]!r} names a model or server of another machine; "
            f"set it to {' or '.join(_PLAIN_EMBEDDERS)}, or remove it"
        )
    if found["relations"]:
        settings["document_relations"] = _RELATIONS_FILE
    try:
        config = CollectionConfig.model_validate(settings)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise PalimpsestError(f"{file}: {where}: {first['msg']}; correct it, or export again") from None
    return NewCollection(config, settings, found["relations"], found["questions"], dict(export.sources(collection)))


def write_collection(home: Home, new: NewCollection) -> Path:
    """Writes the log and the folder of a collection that the home does not have; returns the folder.

    What a stopped import left of it is removed first: the list of the home's collections names it last.
    """
    name = new.config.name
    log, folder = IngestLog(home.log / name), home.path / "collections" / name
    for left in (log.folder, folder):
        shutil.rmtree(left, ignore_errors=True)
    versions: list[dict[str, object]] = []
    for uri, found in sorted(new.sources.items()):
        for version, rows in found:
            digest = content_id("imported", *(json.dumps(row, sort_keys=True, default=str) for row in rows))
            key = content_id("imported", name, uri, str(version["ordinal"]), digest)
            log.write_text(key, rows)
            times = {t: parse_time(version[t]) for t in ("seen_at", "gone_at")}
            row = {"uri": uri, "content_hash": digest, "ordinal": version["ordinal"], "text_key": key, **times}
            versions.append({**row, "problems": [], "left_out": 0, "instead_of": ""})
    if versions:
        log.add_imported(versions)
    if new.relations:
        lines = "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in new.relations)
        write_bytes(folder / _RELATIONS_FILE, lines.encode())
    if new.questions:
        write_bytes(folder / QUESTIONS_FILE, yaml.safe_dump(new.questions, allow_unicode=True).encode())
        load_standing_questions(folder)
    text = yaml.safe_dump(new.settings, allow_unicode=True, sort_keys=False)
    write_bytes(folder / "collection.yaml", text.encode())
    return folder
