"""Every version of every source that the ingest log holds of one user, and the settings that it was read with."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.core.scopes import GENERAL
from palimpsest.memories.document_relations import relations_of_file
from palimpsest.sources.records.document_row import DocumentRow, row_to_document
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.ingest_log import IngestLog
from palimpsest.store.standing_questions import load_standing_questions
from palimpsest.text.normalize import fold

_OF_THE_HOME = {"users", "include", "document_relations", "embedder"}
"""Settings that name other users, or files and folders of this machine; what applies of them is written apart."""


def sources_of_user(log: IngestLog, user: str) -> list[JsonObject]:
    """Returns the sources of which some version has a document of the user, with their versions, by uri.

    Versions without one stay, empty: they retire what was there before. The hash of a file and the problems of its
    other parts are not the user's, and are left out.
    """
    sources: list[JsonObject] = []
    for (uri,), rows in log.versions().sort("uri", "ordinal").group_by("uri", maintain_order=True):
        versions = [_version(log, row, user) for row in rows.to_dicts()]
        if any(version["documents"] for version in versions):
            sources.append({"uri": str(uri), "versions": cast(list[JsonValue], versions)})
    return sources


def _version(log: IngestLog, row: Mapping[str, Any], user: str) -> JsonObject:
    texts = log.rows(row["text_key"]) if row["text_key"] else []
    documents: list[JsonValue] = [
        document_to_json(cast(DocumentRow, text)) for text in texts if text["user_id"] == user
    ]
    times = {name: None if row[name] is None else row[name].isoformat() for name in ("seen_at", "gone_at")}
    return {"ordinal": row["ordinal"], **times, "documents": documents}


def document_to_json(row: DocumentRow) -> JsonObject:
    """Returns a document of the log as an export has it."""
    redactions: JsonValue = json.loads(row["redactions"]) if row["redactions"] else None
    return {**row_to_document(row).to_json(), "redactions": redactions}


def settings_of_user(
    config: CollectionConfig, folder: Path | None, user: str, uris: Mapping[str, set[str]], embedder: str | None
) -> JsonObject:
    """Returns what an import needs of a collection's settings: nothing that names another user or this machine.

    Args:
        config: of the collection.
        folder: of the collection; None where it is gone.
        user: becomes the default user of the import.
        uris: of the user's documents, by project.
        embedder: what the collection is searched with, where it is not the default.
    """
    settings: JsonObject = config.model_dump(mode="json", exclude_defaults=True, exclude=_OF_THE_HOME)
    settings |= {"name": config.name, "description": config.description, "user_id": user}
    if embedder:
        settings["embedder"] = embedder
    relations: list[JsonValue] = []
    questions: list[JsonValue] = []
    if folder is not None and folder.is_dir():
        relations = list(_relations(config, folder, user, uris.get(config.project_id or GENERAL, set())))
        loaded = load_standing_questions(folder)
        questions = [q.model_dump(mode="json") for q in loaded if q.user in (None, user)]
    return {"settings": settings, "relations": relations, "questions": questions}


def without_other_speakers(config: CollectionConfig, speakers: set[str]) -> CollectionConfig:
    """Returns the settings in which `trust` names nobody but those who speak to the user."""
    known = {fold(name) for name in speakers}
    trust = {name: value for name, value in config.trust.speakers.items() if name in known}
    return config.model_copy(update={"trust": config.trust.model_copy(update={"speakers": trust})})


def _relations(config: CollectionConfig, folder: Path, user: str, uris: set[str]) -> Iterator[JsonObject]:
    """Yields the stated relations of the user's documents: a collection's file is about its own user and project."""
    if user != config.user_id:
        return
    for newer, older, label in relations_of_file(uris, config, folder):
        if {newer, older} <= uris:
            yield {"newer": newer, "older": older, "label": label}
