"""Makes the folder of a new collection, and changes the settings of one that is there."""

import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from palimpsest.core.errors import ArgumentError, PalimpsestError
from palimpsest.core.files import write_bytes
from palimpsest.store.collection_config import CollectionConfig, Unit, load_collection
from palimpsest.store.home import Home


def create_collection(
    home: Home,
    name: str,
    description: str,
    unit: Unit = "chunk",
    user_id: str | None = None,
    corpus: Path | None = None,
) -> Path:
    """Makes a collection and lists it in the home; returns its folder, which may have files already.

    Args:
        home: the home, which is made where it does not exist.
        name: of the collection; unique in the home.
        description: what it contains, in one sentence.
        unit: what one memory is.
        user_id: owner of memories whose source names no user; the default of collection.yaml where it is None.
        corpus: the folder that its own is made in; default: `<home>/collections`.

    Raises:
        ArgumentError: the home has one of that name, the folder has a collection.yaml, or `corpus` is a file.
        PalimpsestError: a value cannot be used, or another process is writing the home.
    """
    if corpus is not None and corpus.exists() and not corpus.is_dir():
        raise ArgumentError("corpus", "not a folder; name another", corpus)
    home.create()
    with home.lock():
        if name in home.sources:
            raise ArgumentError("name", f"this home has one in {home.sources[name]}; choose another", name)
        folder = (home.path / "collections" if corpus is None else corpus) / name
        path, is_new = folder / "collection.yaml", not folder.exists()
        if "/" in name or name.startswith(".") or folder.is_file():
            raise ArgumentError("name", f"{folder} cannot be made; choose another", name)
        if path.exists():
            raise ArgumentError("name", f"{folder} has a collection.yaml; build it, or choose another", name)
        settings = {"name": name, "description": description, "unit": unit} | ({"user_id": user_id} if user_id else {})
        try:
            write_bytes(path, yaml.safe_dump(settings, allow_unicode=True, sort_keys=False).encode())
            load_collection(folder)
        except BaseException:
            path.unlink(missing_ok=True)
            if is_new and folder.is_dir():
                folder.rmdir()
            raise
        home.remember_sources({name: folder})
    return folder


# Changes fields of a collection.yaml in place: comments and order stay, and nothing is saved that cannot be read.

_WIDTH = 4096
_TOGETHER = frozenset({"unit", "form"})
"""Fields of which one sets the other."""


def update_collection(home: Home, name: str, changes: Mapping[str, object]) -> CollectionConfig:
    """Changes the settings of a collection; the next build applies them.

    Args:
        home: the home.
        name: of the collection.
        changes: new values of fields, as YAML has them; None removes a field.

    Returns:
        The settings afterwards.

    Raises:
        ArgumentError: the home has no such collection, or its folder is gone.
        PalimpsestError: a field or a value cannot be used, or another process is writing the home.
    """
    if name not in home.sources:
        raise ArgumentError("name", f"not in this home; it has: {', '.join(home.sources) or 'none'}", name)
    if (folder := home.folder_of(name)) is None:
        raise ArgumentError("name", f"its folder {home.sources[name]} is gone; restore it", name)
    if "name" in changes:
        raise PalimpsestError(f"collection {name}: its name is what its memories are known by, and cannot be changed")
    if not changes:
        raise PalimpsestError(f"collection {name}: nothing to change; name a field")
    with home.lock():
        path = folder / "collection.yaml"
        before = load_collection(folder)
        data = _changed(path, changes)
        after = _checked(path, data)
        _check_rest(path, before, after, changes)
        write_bytes(path, data)
    return after


def _changed(path: Path, changes: Mapping[str, object]) -> bytes:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, _WIDTH
    try:
        document = yaml.load(path.read_text(encoding="utf-8"))
    except YAMLError as e:
        raise PalimpsestError(f"{path}: cannot be changed: {' '.join(str(e).split())[:200]}; edit it by hand") from None
    for field, value in changes.items():
        if value is None:
            document.pop(field, None)
        else:
            document[field] = _quoted(value)
    out = io.BytesIO()
    yaml.dump(document, out)
    return out.getvalue()


def _quoted(value: object) -> Any:
    """Returns a value whose texts are written in quotes: `no` without them would be read as false."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, str):
        return DoubleQuotedScalarString(value)
    if isinstance(value, Mapping):
        return {str(k): _quoted(v) for k, v in value.items()}
    return [_quoted(v) for v in value] if isinstance(value, list | tuple) else value


def _checked(path: Path, data: bytes) -> CollectionConfig:
    """Returns the settings that a collection.yaml with these bytes would have.

    Raises:
        PalimpsestError: it could not be used.
    """
    with tempfile.TemporaryDirectory() as scratch:
        try:
            (Path(scratch) / path.name).write_bytes(data)
            return load_collection(Path(scratch))
        except PalimpsestError as e:
            raise PalimpsestError(str(e).replace(scratch, str(path.parent))) from None


def _check_rest(path: Path, before: CollectionConfig, after: CollectionConfig, changes: Mapping[str, object]) -> None:
    """Checks that all other fields are read as before.

    Raises:
        PalimpsestError: one is not: the file uses something of YAML that cannot be changed safely.
    """
    named = {*changes, *(_TOGETHER if _TOGETHER & set(changes) else ())}
    for field in CollectionConfig.model_fields:
        if field not in named and getattr(before, field) != getattr(after, field):
            raise PalimpsestError(f"{path}: {field} would change too; edit the file by hand")
