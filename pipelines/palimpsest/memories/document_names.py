"""Which document of a scope another one means: people write `3`, `ADR-12` or a title, not `decisions/0012-ferry.md`."""

import posixpath
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

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
