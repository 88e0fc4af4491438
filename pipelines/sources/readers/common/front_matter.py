"""YAML front matter: metadata, and the relations to other documents that it states."""

import posixpath
from collections.abc import Mapping
from typing import Any

import yaml
from frontmatter.default_handlers import YAMLHandler

from palimpsest.core.json_types import JsonObject
from palimpsest.sources.readers.common.clean_text import clean_text, to_json_object
from palimpsest.sources.records.extracted import RelationLabel, StatedRelation
from palimpsest.sources.records.stated_fields import parse_stated_fields
from palimpsest.store.limits import Limits

_HANDLER = YAMLHandler()
_STATED: dict[str, RelationLabel] = {"supersedes": "UPDATE", "replaces": "UPDATE", "requires": "EXTEND"}


def split_front_matter(text: str, limits: Limits) -> tuple[JsonObject, str, list[str]]:
    """Returns (metadata, body, problems); text without valid front matter is all body.

    A file may begin with a thematic break that looks like front matter, so what is not a mapping stays in the body.
    """
    if not text.startswith("---") or not _HANDLER.detect(text):
        return {}, text, []
    try:
        raw, body = _HANDLER.split(text)
    except ValueError:  # no closing line
        return {}, text, []
    if len(raw) > limits.max_front_matter_chars:
        return {}, text, [f"front matter: longer than {limits.max_front_matter_chars:,} characters, read as text"]
    try:
        # Not the C loader, which is the handler's default: deep nesting crashes the whole process there.
        loaded = _HANDLER.load(raw, Loader=yaml.SafeLoader)
        if not isinstance(loaded, dict):
            return {}, text, []
        return to_json_object(loaded), body.lstrip("\n"), []
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, OverflowError, LookupError, AttributeError) as e:
        return {}, text, [f"front matter: not valid YAML, read as text: {_first_line(e)}"]


def _first_line(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is not None and problem:
        return f"line {mark.line + 1}: {problem}"
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def parse_relations(metadata: Mapping[str, Any], uri: str) -> tuple[tuple[StatedRelation, ...], list[str]]:
    """Returns the relations in `supersedes`, `replaces` (UPDATE) and `requires` (EXTEND), sorted, and problems.

    Each names a document, or is a list or a comma-separated line of names: a path relative to the collection's folder
    or, where it begins with `./` or `../`, to the document's own; or a name that the documents stage looks up.
    """
    found: set[tuple[str, RelationLabel]] = set()
    problems = []
    for key, label in _STATED.items():
        value = metadata.get(key)
        for item in value if isinstance(value, list) else str(value or "").split(","):
            if item is None or not str(item).strip():
                continue
            older = _resolve(item, uri) if isinstance(item, str | int) else None
            if older is None or older == uri:
                reason = "is the document itself" if older == uri else "is not a path inside the collection"
                problems.append(f"front matter: {key}: {str(item)[:100]!r} {reason}")
            else:
                found.add((older, label))
    return tuple(StatedRelation(older, label) for older, label in sorted(found)), problems


def check_fields(metadata: Mapping[str, Any]) -> list[str]:
    """Returns a problem for each field of ours in front matter whose value cannot be used."""
    return [f"front matter: {problem}" for problem in parse_stated_fields(metadata, free_words=True)[1]]


def _resolve(item: str | int, uri: str) -> str | None:
    path = clean_text(str(item)).strip().replace("\\", "/")
    if path.startswith(("./", "../")):
        path = posixpath.join(posixpath.dirname(uri), path)
    path = posixpath.normpath(path)
    return None if path in ("", ".") or path.startswith(("/", "..")) or "://" in str(item) else path
