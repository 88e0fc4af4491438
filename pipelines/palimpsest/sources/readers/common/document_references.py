"""How documents name each other where one states that it replaces another: links, numbers, file names and titles."""

import posixpath
import re
from collections.abc import Iterator

from palimpsest.sources.extracted import RelationLabel
from palimpsest.sources.readers.common.clean_text import one_line
from palimpsest.text.dates import NO_DATE_WORDS

RELATION_FIELDS: dict[str, RelationLabel] = {
    **dict.fromkeys(("supersedes", "supercedes", "replaces", "obsoletes"), "UPDATE"),
    **dict.fromkeys(("supersededby", "supercededby", "replacedby", "obsoletedby"), "UPDATED_BY"),
    "requires": "EXTEND",
}
"""Fields that name other documents, see `normalize_field`. `updates` and `amends` are none: they retire nothing."""

STATUS_FIELDS = ("status", "withdrawalreason", "deprecated")
"""Fields whose value may name what replaced the document: `Superseded by ADR-12`."""

_MAX_TITLE_CHARS = 150
_SUPERSEDE = r"super(?:s|c|sc)ede"
_BY = rf"(?:{_SUPERSEDE}d|replaced|obsoleted|deprecated)\W{{1,4}}by|(?:deprecated|withdrawn)\W{{1,3}}in favou?r of"
_VERB = re.compile(rf"\b(?:(?P<by>{_BY})|{_SUPERSEDE}s|replaces|obsoletes)\b", re.IGNORECASE)
# What may stand before the verb in a line of a status; after any other word the line is prose.
_BEFORE = re.compile(
    r"(?:[\W\d_]|\b(?:accepted|approved|adopted|implemented|deprecated|superseded|replaced|obsolete|rejected|done|final"
    r"|active|status|this|adr|rfc|pep|decision|record|document|proposal|is|was|has|been|now|and|but|it)\b)*",
    re.IGNORECASE,
)
_PARTLY = re.compile(r"\b(?:parts?|partly|partially|some|aspects?|portions?|sections?)\b", re.IGNORECASE)
_LINK_TEXT = re.compile(r"\[[^\]]*\](?:\([^)]*\))?")
_DATE = re.compile(
    r"(?<![\w/-])(?:\d{4}-\d\d-\d\d|\d{1,2}[ -][A-Z][a-z]+[ -]\d{4}|[A-Z][a-z]+ \d{1,2},? \d{4})(?![\w-])"
)
_FILLER = re.compile(r"(?:[\s*\"'“”(=,&/+;-]|:(?!\w+:`)|\b(?:the|by|and|or|also)\b)*", re.IGNORECASE)
_SEPARATOR = re.compile(r"[*\"'”)]*\s*(?:[,&/+]|and\b|or\b)", re.IGNORECASE)
_REFERENCE = re.compile(
    r"\[\[(?P<page>[^\]|]+)(?:\|[^\]]*)?\]\]"
    r"|\[(?P<label>(?:[^\[\]]|\[[^\]]*\])*)\](?:\(<?(?P<target>[^()\s>]+)>?(?:\s[^)]*)?\)|\[[^\]]*\])?"
    r"|:\w+:`[~!]?(?:[^`<]*<)?(?P<role>[^`>]+)>?`"
    r"|`[^`<]*<(?P<embedded>[^`>]+)>`_*"
    r"|(?:xref|link):(?P<macro>[^\[\s]+)\[[^\]]*\]|<<(?P<anchor>[^,#>]+)[^>]*>>"
    r"|`?(?P<series>(?i:adr|pep|rfc|eip|erc|kep)|[A-Z]{2,8}|(?i:decision|record|number|no\.?))"
    r"[ \-_#:]*0*(?P<number>\d{1,6})(?!\w|[-_.]\w)"
    r"|`?(?P<file>[\w./-]+\.(?:md|markdown|rst|txt|adoc|html?|pdf|docx)\b|\w*\d\w*[-_][\w-]*\w|[a-z]+-\d+)"
    r"|`?#?(?P<bare>\d{1,6})(?=`?\s*(?:$|[,.;:()&/|]|and\b|or\b))"
)
_NO_SERIES = ("decision", "record", "number", "no", "no.")


def stated_replacements(line: str) -> list[tuple[str, RelationLabel]]:
    """Returns the documents that a line of a status names: `Superseded by [9. Ferry](0009-ferry.md)`, UPDATED_BY.

    What is said of a part of a document, or in the middle of a sentence, replaces nothing.
    """
    line = _DATE.sub("", line)
    found: list[tuple[str, RelationLabel]] = []
    start = 0
    verbs = list(_VERB.finditer(line))
    for n, verb in enumerate(verbs):
        before = line[start : verb.start()]
        after = line[verb.end() : verbs[n + 1].start() if n + 1 < len(verbs) else None]
        if not _BEFORE.fullmatch(before) or _PARTLY.search(_LINK_TEXT.sub("", before + after)):
            return found
        found += [(name, "UPDATED_BY" if verb["by"] else "UPDATE") for name in named_documents(after)]
        start = verb.end() + max((r.end() for r in _references(after)), default=0)
    return found


def named_documents(text: str) -> list[str]:
    """Returns the documents that a text names at its start; where it names none so, all of it as a title."""
    if names := [name for reference in _references(text) if (name := _name(reference))]:
        return names
    title = one_line(text).strip(" .:;,*_\"'`“”()")
    is_title = 3 < len(title) <= _MAX_TITLE_CHARS and "[" not in title and title.lower() not in NO_DATE_WORDS
    return [title] if is_title else []


def _references(text: str) -> Iterator[re.Match[str]]:
    at = 0
    while True:
        filler = _FILLER.match(text, at)
        found = _REFERENCE.match(text, filler.end() if filler else at)
        if found is None:
            return
        yield found
        at = found.end()
        if not _SEPARATOR.match(text, at):
            return


def _name(found: re.Match[str]) -> str:
    """Returns the name in a reference as the documents stage looks it up: a path, `adr-12`, `12` or a title."""
    if found["number"]:
        series = found["series"].lower()
        return found["number"] if series in _NO_SERIES else f"{series}-{found['number']}"
    if found["role"]:
        return re.sub(r"^[A-Za-z]+[- ](?=\d+$)", "", found["role"])
    target = next((t for t in found.group("target", "embedded", "macro", "anchor", "page", "file") if t), "")
    target = re.sub(r"[?#].*", "", target)
    label = next(iter(named_documents(found["label"] or "")), "")
    if "://" in target and label and target.rstrip("/").rpartition("/")[2].isdigit():  # an issue, not a document
        return label
    return target or label or found["bare"] or ""


def resolve_path(name: str, uri: str) -> str:
    """Returns a path in the document at `uri` as one relative to the collection's folder; other names as they are.

    A path that leads out of the collection keeps what is below, and one that begins with `/` is of the collection.
    """
    if "://" in name or ("/" not in name and "." not in name):
        return name
    folder = "" if name.startswith("/") else posixpath.dirname(uri)
    return re.sub(r"^(?:\.\./)+", "", posixpath.normpath(posixpath.join(folder, name.lstrip("/"))))
