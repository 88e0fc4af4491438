"""YAML and TOML front matter: metadata, and the relations to other documents that it states."""

import itertools
import math
import posixpath
import re
import stat
import tomllib
from collections.abc import Collection, Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from frontmatter.default_handlers import YAMLHandler

from palimpsest.core.errors import Rejected
from palimpsest.core.ids import JsonObject, JsonValue
from palimpsest.sources.extracted import (
    FIELD_NAMES,
    Extraction,
    RelationLabel,
    Scope,
    StatedRelation,
    format_value,
    parse_stated_fields,
)
from palimpsest.sources.readers.document_head import (
    DATE_FIELDS,
    RELATION_FIELDS,
    STATUS_FIELDS,
    check_dates,
    find_stated_time,
    normalize_field,
    resolve_path,
    stated_replacements,
)
from palimpsest.sources.readers.encodings import (
    clean_text,
    explain_value_error,
    parse_name,
    to_json_object,
    to_json_value,
)
from palimpsest.store.collection_config import Limits
from palimpsest.text.dates import NO_DATE_WORDS, DateOrder

# Whose a text is: the `user_id`, `project_id` and `session_id` that a source states.
#
# A field that is missing has the collection's default. One that is there and cannot be used never has: the text would
# be served to another user.

SCOPE_FIELDS = ("user_id", "project_id", "session_id")

# What cleaning would remove or replace: two names that differ in it alone would become one.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f\ud800-\udfff\ufeff]")


def parse_scope_name(field: str, value: JsonValue) -> tuple[str | None, str | None]:
    """Returns (name, problem); both are None where no name is stated: null, or a text of no characters."""
    if value is None or value == "":
        return None, None
    is_number = isinstance(value, int | float) and math.isfinite(value)
    if isinstance(value, bool):
        return None, f"{field} {str(value).lower()} is no name; write a name in quotes"
    if not is_number and not isinstance(value, str):
        return None, f"{field} {format_value(value)} is no name; write one name, as text"
    if isinstance(value, str) and _CONTROL.search(value):
        return None, f"{field} {format_value(value)} contains a control character; remove it"
    if name := parse_name(value):
        return name, None
    return None, f"{field} {format_value(value)} is blank; write a name, or leave the field out"


def parse_scope(values: Mapping[str, JsonValue]) -> tuple[Scope, list[str]]:
    """Returns the names in a mapping, and a problem for each that is stated and cannot be used."""
    found = {field: parse_scope_name(field, values.get(field)) for field in SCOPE_FIELDS}
    names = Scope(**{field: name for field, (name, _) in found.items()})
    return names, [problem for _, problem in found.values() if problem]


def require_scope(values: Mapping[str, JsonValue], where: str) -> Scope:
    """Returns the names in a mapping.

    Raises:
        Rejected: one cannot be used; the message begins with `where`.
    """
    names, problems = parse_scope(values)
    if problems:
        raise Rejected(f"{where}: {'; '.join(problems)}")
    return names


# Fields in YAML, for front matter and sidecars, read as their author wrote them.

_INT, _FLOAT, _BOOL, _TIME, _TEXT = (f"tag:yaml.org,2002:{t}" for t in ("int", "float", "bool", "timestamp", "str"))
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|nan)", re.IGNORECASE)


class YamlFields(NamedTuple):
    """A YAML document: its value, a problem for each field that cannot be kept, and the fields stated twice."""

    value: object
    problems: list[str]
    repeated: set[str]


def load_yaml_fields(text: str) -> YamlFields:
    """Returns the value of one YAML document.

    Unlike YAML 1.1, `012`, `0x1F`, `1_000` and `12:30` are text, not the numbers 10, 31, 1000 and 750. A user, project,
    session or title is text as written, also where it looks like a number or a date.

    Raises:
        yaml.YAMLError, ValueError, RecursionError and what else PyYAML lets through: not valid YAML.
    """
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if isinstance(root, yaml.MappingNode):
            _keep_names_as_written(root)
        value = None if root is None else loader.construct_document(root)
        return YamlFields(value, loader.problems, loader.repeated)
    finally:
        loader.dispose()


def _keep_names_as_written(root: yaml.MappingNode) -> None:
    for key, value in root.value:
        as_text = {_INT, _FLOAT, _TIME} if key.value in SCOPE_FIELDS else {_INT, _FLOAT, _TIME, _BOOL}
        if key.value in (*SCOPE_FIELDS, "title") and isinstance(value, yaml.ScalarNode) and value.tag in as_text:
            value.tag = _TEXT


class _Loader(yaml.SafeLoader):
    """Not the C loader: deep nesting crashes the whole process there."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.problems: list[str] = []
        self.repeated: set[str] = set()

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        if isinstance(node, yaml.MappingNode):
            self._check(node)
        return super().construct_mapping(node, deep)

    def _check(self, node: yaml.MappingNode) -> None:
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            name = key.value[:40]
            if key.value in seen:
                self.repeated.add(key.value)
                self.problems.append(f"{name} is stated twice; remove one")
            seen.add(key.value)
            if isinstance(value, yaml.ScalarNode) and value.tag == _FLOAT and _NOT_FINITE.fullmatch(value.value):
                self.problems.append(f"{name} {value.value} is no finite number; write one, or leave the field out")


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_INT, _FLOAT)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_INT, re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(r"^(?:[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"),
    list("-+0123456789."),
)


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


# Sidecars: `<file>.meta.yaml` next to a source has the fields that front matter would, for formats that have none.
#
# `kep.yaml` is the sidecar of the README.md next to it.

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
