"""The document_relations table: which documents state that they replace or extend another."""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.scopes import GENERAL
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.tables import conform

_NUMBER = re.compile(r"\d{1,9}")


def document_relations(rows: pl.DataFrame, config: CollectionConfig, folder: Path) -> tuple[pl.DataFrame, list[str]]:
    """Returns the document_relations table, and a line for each relation of which an end is no source.

    Args:
        rows: document versions with user_id, project_id, uri, is_current and relations.
        config: the collection; its document_relations names a file of relations.
        folder: the collection's folder.
    """
    owner = ["user_id", "project_id"]
    resolvers = {(str(u), str(p)): _UriResolver(uris) for u, p, uris in rows.group_by(owner).agg("uri").iter_rows()}
    stated = [
        ((user, project), uri, resolvers[user, project].resolve(older, uri), label)
        for user, project, uri, relations in rows.filter("is_current").select(*owner, "uri", "relations").iter_rows()
        for older, label in json.loads(relations)
    ]
    scope = (config.user_id, config.project_id or GENERAL)
    own = resolvers.setdefault(scope, _UriResolver([]))
    stated += [(scope, *relation) for relation in relations_of_file(own.uris, config, folder)]
    found = [r for r in stated if r[1] in resolvers[r[0]].uris and r[2] in resolvers[r[0]].uris]
    unresolved = sorted({f"{newer} {label}s {older}" for _, newer, older, label in set(stated) - set(found)})
    found = [(*scope, *fields) for scope, *fields in found]
    schema = dict.fromkeys([*owner, "newer_uri", "older_uri", "label"], pl.String())
    frame = pl.DataFrame(found, schema=schema, orient="row")
    frame = frame.with_columns(collection=pl.lit(config.name)).unique().sort(pl.all())
    return conform("document_relations", frame), unresolved


def relations_of_file(uris: Iterable[str], config: CollectionConfig, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yields (newer uri, older uri, label) of each line of the collection's file of relations, if it has one.

    Args:
        uris: of the documents of the collection's own user and project, which the file is about.
        config: the collection.
        folder: the collection's folder.
    """
    if not config.document_relations:
        return
    own = _UriResolver(uris)
    for newer, older, label in _read_relation_file(folder / config.document_relations):
        newer_uri = own.resolve(newer, "")
        yield newer_uri, own.resolve(older, newer_uri), label


class _UriResolver:
    """Finds the uri that a document means when it names another: people write `3` or `pep-3`, not `peps/pep-3.md`.

    A uri is itself. Else a number is the one source in the document's folder with it as the first number of its name;
    else a name is the one source that has it, without its suffix. Where several match, none is meant.
    """

    def __init__(self, uris: Iterable[str]) -> None:
        self.uris = set(uris)
        self._stems: dict[str, set[str]] = {}
        self._numbered: dict[tuple[str, int], set[str]] = {}
        for uri in self.uris:
            path, _, row = uri.partition("#")
            stem = row or PurePosixPath(path).stem
            self._stems.setdefault(stem.casefold(), set()).add(uri)
            if number := _NUMBER.search(stem):
                self._numbered.setdefault((posixpath.dirname(path), int(number.group())), set()).add(uri)

    def resolve(self, name: str, document_uri: str) -> str:
        """Returns the uri that `name` means in this document, or `name` where it is none or ambiguous."""
        if name in self.uris:
            return name
        found: set[str] = set()
        if name.isascii() and name.isdigit():
            found = self._numbered.get((posixpath.dirname(document_uri.partition("#")[0]), int(name)), set())
        found = found or self._stems.get(posixpath.basename(name).casefold(), set())
        return next(iter(found)) if len(found) == 1 else name


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
