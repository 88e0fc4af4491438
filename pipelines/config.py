"""Checked settings of a collection, read from its collection.yaml."""

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.errors import PalimpsestError

Unit = Literal["chunk", "turn", "statement"]


class CollectionConfig(BaseModel):
    """A named folder of sources: the unit of rebuild, one Dagster partition."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")
    description: str = Field(min_length=1)
    default: bool = False
    unit: Unit = "chunk"
    user_id: str = Field(default="shared", pattern=r"^\S[^\r\n]{0,199}$")
    project_id: str | None = None
    metadata_schema: dict[str, Any] | None = None
    retention_days: int | None = Field(default=None, gt=0, le=36_500)
    on_removed: Literal["retire", "delete"] = "retire"
    document_relations: str | None = None


def load_collection(folder: Path) -> CollectionConfig:
    """Reads `<folder>/collection.yaml`.

    Raises:
        PalimpsestError: the file is missing or a field is wrong; the message names file, field and fix.
    """
    path = folder / "collection.yaml"
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PalimpsestError(f"collection.yaml: missing; add one with name and description ({path})") from None
    except (yaml.YAMLError, ValueError, RecursionError, OSError) as e:
        raise PalimpsestError(f"collection.yaml: not valid YAML: {str(e).splitlines()[0]} ({path})") from None
    if not isinstance(raw, dict) or not all(isinstance(key, str) for key in raw):
        raise PalimpsestError(f"collection.yaml: must be a mapping with name and description ({path})")
    try:
        return CollectionConfig(**raw)
    except ValidationError as e:
        first = e.errors()[0]
        field = ".".join(str(p) for p in first["loc"]) or "collection.yaml"
        message = "is required" if first["type"] == "missing" else first["msg"][0].lower() + first["msg"][1:]
        raise PalimpsestError(f"collection.yaml: {field} {message} ({path})") from None


def find_collections(corpora: list[Path]) -> dict[str, Path]:
    """Maps the name of each collection found in `<corpus>/<collection>/collection.yaml` to its folder, sorted by name.

    Raises:
        PalimpsestError: a corpus folder is missing or holds no collection, or two collections share a name.
    """
    found: dict[str, Path] = {}
    for corpus in corpora:
        if not corpus.is_dir():
            raise PalimpsestError(f"corpus {corpus}: no such folder; name one that holds <collection>/collection.yaml")
        folders = sorted(p.parent for p in corpus.glob("*/collection.yaml"))
        if not folders:
            raise PalimpsestError(
                f"corpus {corpus}: no collection.yaml one level below; add <collection>/collection.yaml"
            )
        for folder in folders:
            name = load_collection(folder).name
            if name in found:
                raise PalimpsestError(
                    f"collection.yaml: name {name!r} is used twice ({found[name]} and {folder}); rename one"
                )
            found[name] = folder
    return dict(sorted(found.items()))
