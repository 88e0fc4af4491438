"""YAML and TOML front matter: metadata, and the relations to other documents that it states."""

import itertools
import posixpath
import re
import tomllib
from collections.abc import Mapping
from typing import Any

import yaml
from frontmatter.default_handlers import YAMLHandler

from palimpsest.core.errors import Rejected
from palimpsest.core.json_types import JsonObject
from palimpsest.sources.readers.common.clean_text import clean_text, explain_value_error, to_json_object
from palimpsest.sources.readers.common.document_references import (
    RELATION_FIELDS,
    STATUS_FIELDS,
    resolve_path,
    stated_replacements,
)
from palimpsest.sources.readers.common.document_time import DATE_FIELDS, normalize_field
from palimpsest.sources.readers.common.scope_fields import SCOPE_FIELDS, require_scope
from palimpsest.sources.readers.common.yaml_fields import load_yaml_fields
from palimpsest.sources.records.extracted import RelationLabel, StatedRelation
from palimpsest.sources.records.stated_fields import FIELD_NAMES, parse_stated_fields
from palimpsest.store.limits import Limits
from palimpsest.text.dates import NO_DATE_WORDS

_HANDLER = YAMLHandler()
_LINK = re.compile(r"\[[^\[\]]*\]\(([^()\s]+)\)")
_FIELD_LINE = re.compile(r"([\w-]+)\s*[:=](?:\s|$)", re.ASCII)
_MAX_STATUS_CHARS = 500
_TOML_FENCE = "+++\n"
_PROTECTING = {*SCOPE_FIELDS, "privacy", "memory"}
_KNOWN = {
    normalize_field(f)
    for f in (*RELATION_FIELDS, *SCOPE_FIELDS, *FIELD_NAMES, *DATE_FIELDS, "title", "valid_from", "valid_until")
}


def split_front_matter(text: str, limits: Limits) -> tuple[JsonObject, str, list[str]]:
    """Returns (metadata, body, problems); text without valid front matter is all body.

    A file may begin with a thematic break that looks like front matter, so what is not a mapping stays in the body.

    Raises:
        Rejected: the front matter cannot be read, and it has a field that says who may see the text, or has one twice.
    """
    if text.startswith(_TOML_FENCE):
        return _split_toml(text, limits)
    if not text.startswith("---") or not _HANDLER.detect(text):
        return {}, text, []
    try:
        raw, body = _HANDLER.split(text)
    except ValueError:
        fields = _first_lines_of_fields(text)
        return _read_as_text(text, fields, "no closing line of three dashes; add it") if fields else ({}, text, [])
    if len(raw) > limits.max_front_matter_chars:
        return _read_as_text(text, raw, f"longer than {limits.max_front_matter_chars:,} characters; shorten it")
    try:
        found = load_yaml_fields(raw)
        if isinstance(found.value, list):
            return _read_as_text(text, raw, "a list; write fields such as date: 2026-03-02")
        if not isinstance(found.value, dict):
            return {}, text, []
        require_scope(found.value, "front matter")  # before cleaning, which makes two names one
        metadata = to_json_object(found.value)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, OverflowError, LookupError, AttributeError) as e:
        return _read_as_text(text, raw, f"not valid YAML: {_first_line(e)}")
    problems = [f"front matter: {p}" for p in found.problems]
    if found.repeated & _PROTECTING:
        raise Rejected("; ".join(problems))
    return metadata, body.lstrip("\n"), problems


def _split_toml(text: str, limits: Limits) -> tuple[JsonObject, str, list[str]]:
    raw, end, body = text[len(_TOML_FENCE) - 1 :].partition(f"\n{_TOML_FENCE}")
    if not end:
        return {}, text, []
    if len(raw) > limits.max_front_matter_chars:
        return _read_as_text(text, raw, f"longer than {limits.max_front_matter_chars:,} characters; shorten it")
    try:
        fields = tomllib.loads(raw)
        require_scope(fields, "front matter")
        return to_json_object(fields), body.lstrip("\n"), []
    except (ValueError, RecursionError) as e:
        return _read_as_text(text, raw, f"not valid TOML: {_first_line(e)}")


def _read_as_text(text: str, raw: str, problem: str) -> tuple[JsonObject, str, list[str]]:
    """Returns the text as its own body, and the problem.

    Raises:
        Rejected: one of the fields says who may see the text.
    """
    names = [m[1] for line in raw.splitlines() if (m := _FIELD_LINE.match(line))]
    if protecting := sorted(_PROTECTING.intersection(names)):
        raise Rejected(
            f"front matter: {problem}; it states {', '.join(protecting)}, so the text is not read without it"
        )
    return {}, text, [f"front matter: {problem} (it was read as text)"]


def _first_lines_of_fields(text: str) -> str:
    """Returns the lines after the first that are fields; empty where none is a field that front matter usually has."""
    lines = text.splitlines()[1:]
    fields = list(itertools.takewhile(_FIELD_LINE.match, lines))
    is_known = any(normalize_field(re.split("[:=]", line)[0].strip()) in _KNOWN for line in fields)
    return "\n".join(fields) if is_known else ""


def _first_line(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is not None and problem:
        return f"line {mark.line + 1}: {problem}"
    text = explain_value_error(error) if isinstance(error, ValueError) else str(error)
    return (text.splitlines() or [type(error).__name__])[0][:200]


def parse_relations(metadata: Mapping[str, Any], uri: str) -> tuple[tuple[StatedRelation, ...], list[str]]:
    """Returns the relations in `supersedes`, `superseded_by`, `requires` and their like and in `status`, and problems.

    Each field names a document, or is a list or a comma-separated line of names: a path relative to the collection's
    folder or, where it begins with `./` or `../`, to the document's own; a link; or a name that the documents stage
    looks up.
    """
    found: set[tuple[str, RelationLabel]] = set()
    problems = []
    for key, value in metadata.items():
        if normalize_field(key) in STATUS_FIELDS and isinstance(value, str):
            found.update(
                (resolve_path(name, uri), label) for name, label in stated_replacements(value[:_MAX_STATUS_CHARS])
            )
        if (label := RELATION_FIELDS.get(normalize_field(key))) is None:
            continue
        for item in _names(value):
            other = _resolve(item, uri) if isinstance(item, str | int) else None
            if other is None or other == uri:
                reason = "is the document itself" if other == uri else "is not a path inside the collection"
                problems.append(f"front matter: {key}: {str(item)[:100]!r} {reason}")
            else:
                found.add((other, label))
    return tuple(StatedRelation(other, label) for other, label in sorted(found)), problems


def _names(value: object) -> list[object]:
    items = value if isinstance(value, list) else [value]
    return [
        name
        for item in items
        for name in (_LINK.findall(item) or item.split(",") if isinstance(item, str) else [item])
        if name is not None and str(name).strip().lower() not in NO_DATE_WORDS
    ]


def check_fields(metadata: Mapping[str, Any]) -> list[str]:
    """Returns a problem for each field of ours in front matter whose value cannot be used."""
    return [f"front matter: {problem}" for problem in parse_stated_fields(metadata, free_words=True)[1]]


def _resolve(item: str | int, uri: str) -> str | None:
    path = clean_text(str(item)).strip().replace("\\", "/")
    if "://" in path:
        return path
    if path.startswith(("./", "../")):
        path = posixpath.join(posixpath.dirname(uri), path)
    path = posixpath.normpath(path.lstrip("/") or ".")
    return None if path == "." or path.startswith("..") else path
