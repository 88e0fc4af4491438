"""The document_relations table: which documents state that they replace or extend another."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.scopes import GENERAL
from palimpsest.memories.document_names import DocumentNames
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.tables import conform


def document_relations(rows: pl.DataFrame, config: CollectionConfig, folder: Path) -> tuple[pl.DataFrame, list[str]]:
    """Returns the document_relations table, and a line for each relation of which an end is no source.

    Args:
        rows: document versions with user_id, project_id, uri, is_current and relations.
        config: the collection; its document_relations names a file of relations.
        folder: the collection's folder.
    """
    owner = ["user_id", "project_id"]
    stating = rows.filter("is_current", pl.col("relations") != "[]")
    named = rows if config.document_relations else rows.join(stating, on=owner, how="semi")
    titled = named.sort("is_current", "seq").group_by(owner).agg("uri", "title").iter_rows()
    resolvers = {
        (str(user), str(project)): DocumentNames(dict(zip(uris, titles, strict=True)))
        for user, project, uris, titles in titled
    }
    stated = [
        _directed((user, project), uri, resolvers[user, project].resolve(other, uri), label)
        for user, project, uri, relations in stating.select(*owner, "uri", "relations").iter_rows()
        for other, label in json.loads(relations)
    ]
    own_scope = (config.user_id, config.project_id or GENERAL)
    own = resolvers.setdefault(own_scope, DocumentNames({}))
    stated += [(own_scope, *relation) for relation in relations_of_file(own.uris, config, folder)]
    found = [r for r in stated if r[1] in resolvers[r[0]].uris and r[2] in resolvers[r[0]].uris]
    unresolved = sorted({f"{newer} {label}s {older}" for _, newer, older, label in set(stated) - set(found)})
    links = [(*scope, newer, older, label) for scope, newer, older, label in found]
    schema = dict.fromkeys([*owner, "newer_uri", "older_uri", "label"], pl.String())
    frame = pl.DataFrame(links, schema=schema, orient="row")
    frame = frame.with_columns(collection=pl.lit(config.name)).unique().sort(pl.all())
    return conform("document_relations", frame), unresolved


def _directed(scope: tuple[str, str], uri: str, other: str, label: str) -> tuple[tuple[str, str], str, str, str]:
    """Returns (scope, newer uri, older uri, label) of what a document states of another."""
    return (scope, other, uri, "UPDATE") if label == "UPDATED_BY" else (scope, uri, other, label)


def relations_of_file(uris: Iterable[str], config: CollectionConfig, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yields (newer uri, older uri, label) of each line of the collection's file of relations, if it has one.

    Args:
        uris: of the documents of the collection's own user and project, which the file is about.
        config: the collection.
        folder: the collection's folder.
    """
    if not config.document_relations:
        return
    own = DocumentNames(dict.fromkeys(uris, ""))
    for newer, older, label in _read_relation_file(folder / config.document_relations):
        newer_uri = own.resolve(newer, "")
        yield newer_uri, own.resolve(older, newer_uri), label


def check_relation_file(config: CollectionConfig, folder: Path) -> None:
    """Checks the collection's file of relations, if it has one.

    Raises:
        PalimpsestError: the file cannot be read, or a line is no relation.
    """
    for _ in relations_of_file((), config, folder):
        pass


def _read_relation_file(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yields (newer, older, label) of each line of a JSONL file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise PalimpsestError(
            f"collection.yaml: document_relations: cannot read {path.name}; add it or drop the field ({path})"
        ) from None
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            label = {"UPDATE": "UPDATE", "EXTEND": "EXTEND"}[row["label"]]
            yield str(row["newer"]), str(row["older"]), label
        except (ValueError, KeyError, TypeError):
            raise PalimpsestError(
                f"{path.name}: line {number}: needs newer, older and label UPDATE or EXTEND ({path})"
            ) from None
