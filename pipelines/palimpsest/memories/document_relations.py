"""The document_relations table: which documents state that they replace or extend another."""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import polars as pl

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import GENERAL
from palimpsest.store.collection_config import CollectionConfig
from palimpsest.store.tables import conform

# Which document of a scope another one means: people write `3`, `ADR-12` or a title, not `decisions/0012-ferry.md`.

_NUMBER = re.compile(r"(?:(?P<series>[a-z]{2,})[-_ ]?)?(?P<number>\d{1,9})", re.IGNORECASE)
_NUMBERED_NAME = re.compile(rf"{_NUMBER.pattern}[-_][\w.-]+", re.IGNORECASE)
_SUFFIX = re.compile(r"\.(?:md|markdown|rst|txt|adoc|html?|pdf|docx)$", re.IGNORECASE)
_TITLE_NUMBER = re.compile(r"^(?:[a-z]{2,8}[-_ #]?)?\d{1,6}\s*[^\w\s]\s*")
_MAX_NAME_CHARS = 200
_OF_A_FOLDER = ("readme", "index")


class DocumentNames:
    """Finds the uri that a document means when it names another.

    A uri is itself. Else a number is the one source in the document's folder with it as the first number of its name,
    and of the same series where both have one (`ADR-12`, `adr-0012.md`); else a name is the one source that has it,
    with or without its suffix, then the one with that title. A README has the name of its folder, too. Where several
    match, none is meant.
    """

    def __init__(self, titles: Mapping[str, str]) -> None:
        """Takes the title of each document by its uri; empty where it has none."""
        self.uris = set(titles)
        self._stems: dict[str, set[str]] = {}
        self._titles: dict[str, set[str]] = {}
        self._numbered: dict[tuple[str, int], set[tuple[str, str]]] = {}
        for uri, title in titles.items():
            folder, stem = _place(uri)
            for name in {stem.casefold(), _stem(uri).casefold()}:
                self._stems.setdefault(name, set()).add(uri)
            if number := _NUMBER.search(stem[:_MAX_NAME_CHARS]):
                series = (number["series"] or "").lower()
                self._numbered.setdefault((folder, int(number["number"])), set()).add((series, uri))
            if words := _words(title or ""):
                self._titles.setdefault(words, set()).add(uri)

    def resolve(self, name: str, document_uri: str) -> str:
        """Returns the uri that `name` means in this document, or `name` where it is none or ambiguous."""
        if name in self.uris:
            return name
        base = posixpath.basename(name.rstrip("/"))[:_MAX_NAME_CHARS]
        stem = _SUFFIX.sub("", base)
        found: set[str] = set()
        if number := _NUMBER.fullmatch(name):
            found = self._by_number(number, document_uri)
        for others in (self._stems.get(base.casefold()), self._stems.get(stem.casefold())):
            found = found or (others or set())
        folder = posixpath.dirname(document_uri.partition("#")[0])
        if not found and (number := _NUMBERED_NAME.fullmatch(stem)) and posixpath.dirname(name) in ("", folder):
            found = self._by_number(number, document_uri)  # a link to a file that was renamed
        found = (found or self._titles.get(_words(name), set())) - {document_uri}
        return next(iter(found)) if len(found) == 1 else name

    def _by_number(self, number: re.Match[str], document_uri: str) -> set[str]:
        series = (number["series"] or "").lower()
        found = self._numbered.get((_place(document_uri)[0], int(number["number"])), set())
        return {uri for other, uri in found if not series or not other or series == other}


def _stem(uri: str) -> str:
    path, _, row = uri.partition("#")
    return row or PurePosixPath(path).stem


def _place(uri: str) -> tuple[str, str]:
    """Returns the folder of a document and its name there; a README stands for its folder."""
    folder, stem = posixpath.dirname(uri.partition("#")[0]), _stem(uri)
    if folder and stem.casefold() in _OF_A_FOLDER:
        return posixpath.dirname(folder), posixpath.basename(folder)
    return folder, stem


def _words(title: str) -> str:
    return " ".join(re.findall(r"\w+", _TITLE_NUMBER.sub("", title.casefold())))


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
    """Yields (newer, older, label) of each line of a JSONL file.

    Raises:
        PalimpsestError: the file, or a line of it, cannot be read.
    """
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
