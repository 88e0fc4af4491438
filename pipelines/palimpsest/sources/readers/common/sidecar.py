"""Sidecars: `<file>.meta.yaml` next to a source has the fields that front matter would, for formats that have none.

`kep.yaml` is the sidecar of the README.md next to it.
"""

import stat
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from palimpsest.core.errors import Rejected
from palimpsest.core.json_types import JsonObject
from palimpsest.sources.readers.common.clean_text import parse_name, to_json_value
from palimpsest.sources.readers.common.document_references import RELATION_FIELDS
from palimpsest.sources.readers.common.document_time import DATE_FIELDS, check_dates, find_stated_time
from palimpsest.sources.readers.common.front_matter import check_fields, parse_relations
from palimpsest.sources.readers.common.scope_fields import parse_scope, require_scope
from palimpsest.sources.readers.common.yaml_fields import load_yaml_fields
from palimpsest.sources.records.extracted import Extraction
from palimpsest.store.limits import Limits
from palimpsest.text.dates import DateOrder

SIDECAR_SUFFIX = ".meta.yaml"
_KEP, _KEP_TEXT = "kep.yaml", "README.md"
"""A Kubernetes enhancement proposal is a folder of these two: fields, and the text that they are about."""

_OF_THE_FILE = {"title", *RELATION_FIELDS, *DATE_FIELDS}


def is_sidecar(name: str, siblings: Collection[str]) -> bool:
    """Returns whether a file is the sidecar of one of the files next to it."""
    if name == _KEP:
        return _KEP_TEXT in siblings and _KEP_TEXT + SIDECAR_SUFFIX not in siblings
    return name.endswith(SIDECAR_SUFFIX) and name.removesuffix(SIDECAR_SUFFIX) in siblings


def find_sidecar(path: Path) -> Path | None:
    """Returns the sidecar of a source where there is one."""
    own = _regular_or_link(path.with_name(path.name + SIDECAR_SUFFIX))
    return own or (_regular_or_link(path.with_name(_KEP)) if path.name == _KEP_TEXT else None)


def _regular_or_link(sidecar: Path) -> Path | None:
    try:
        mode = sidecar.lstat().st_mode
    except OSError:  # not there, or a name so long that there can be none
        return None
    return sidecar if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else None


def read_sidecar(path: Path, limits: Limits) -> JsonObject:
    """Returns the fields of a sidecar.

    Raises:
        Rejected: it is a link, too long, cannot be opened, is no YAML mapping or has a field that cannot be read. Its
            source must not be read without it: it may say who may see the source.
    """
    name = f"sidecar {path.name}"
    if path.is_symlink():
        raise Rejected(f"{name}: a link; copy the file in")
    try:
        with path.open("rb") as file:
            data = file.read(limits.max_front_matter_chars + 1)
    except OSError as e:
        raise Rejected(f"{name}: cannot be opened: {e.strerror or type(e).__name__}; check its permissions") from None
    if len(data) > limits.max_front_matter_chars:
        raise Rejected(f"{name}: longer than {limits.max_front_matter_chars:,} bytes; shorten it")
    try:
        found = load_yaml_fields(data.decode("utf-8-sig"))
        if isinstance(found.value, dict):
            require_scope(found.value, name)  # before cleaning, which makes two names one
        loaded = to_json_value(found.value or {})
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, OverflowError, LookupError, AttributeError) as e:
        mark = getattr(e, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        raise Rejected(f"{name}: not valid YAML: {place}{getattr(e, 'problem', None) or type(e).__name__}") from None
    if not isinstance(loaded, dict):
        raise Rejected(f"{name}: must be a mapping of fields such as date: 2026-03-02")
    if found.problems:
        raise Rejected(f"{name}: {'; '.join(found.problems)}")
    return loaded


def apply_sidecar(
    extraction: Extraction, fields: Mapping[str, Any], uri: str, order: DateOrder | None = None
) -> Extraction:
    """Returns what was read of a source with the fields of its sidecar, which win over what the source states.

    Title, dates and relations are those of the source's own document; user, project, session and the other fields
    are also those of its attachments and conversations that do not state them.
    """
    relations, problems = parse_relations(fields, uri)
    shared = {k: v for k, v in fields.items() if k.replace("_", "").replace("-", "").lower() not in _OF_THE_FILE}
    scope, _ = parse_scope(fields)
    when = find_stated_time(fields, order)
    documents = []
    for document in extraction.documents:
        document = replace(
            document,
            metadata=document.metadata | shared,
            user_id=document.user_id or scope.user_id,
            project_id=document.project_id or scope.project_id,
            session_id=document.session_id or scope.session_id,
        )
        if document.uri == uri:
            document = replace(
                document,
                title=parse_name(fields.get("title")) or document.title,
                source_time=when or document.source_time,
                metadata=document.metadata | dict(fields),
                relations=tuple(sorted({*document.relations, *relations}, key=lambda r: (r.other_uri, r.label))),
            )
        documents.append(document)
    problems += check_fields(fields)
    problems_of_all = [*extraction.problems, *(p.replace("front matter", "sidecar", 1) for p in problems)]
    problems_of_all += check_dates(fields, "sidecar", order)
    return replace(extraction, documents=tuple(documents), problems=tuple(problems_of_all))
