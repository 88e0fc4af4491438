"""Changes a file of settings: one value, or by the user's editor; comments stay, and a broken file is never saved."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import folder_lock, write_bytes, write_private
from palimpsest.core.setting_layers import Layer, check_settings, read_settings_file, user_file
from palimpsest.core.setting_table import Setting

Value = str | int | float | bool | list[str]
_EDITORS = ("nano", "vi")
_LOCK_WAIT_S = 30.0
_NEW = "# Settings of Palimpsest: palimpsest config show lists them all. An environment variable wins over this file.\n"


def write_settings(layer: Layer, path: Path, values: Mapping[Setting, Value | None]) -> None:
    """Sets or removes settings in a file, which is made where there is none.

    Args:
        layer: which file it is.
        path: of it.
        values: the new values; None removes a setting.

    Raises:
        PalimpsestError: the file cannot be used as it is, or a value may not be in it.
    """
    with _one_at_a_time():
        before = read_settings_file(layer, path)
        document = _parsed(path, before.data.decode() if before else _NEW)
        _apply(document, values)
        _save(layer, path, tomlkit.dumps(document).encode())


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Keeps a second change out: of two at once one would be lost.

    Raises:
        ComponentFailed: another command does not end.
    """
    folder = user_file().parent
    with folder_lock(folder, _LOCK_WAIT_S, f"{folder}: another command is changing settings; run again", tighten=False):
        yield


def _parsed(path: Path, text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as e:
        raise PalimpsestError(f"{path}: cannot be changed: {' '.join(str(e).split())[:200]}; edit it by hand") from None


def _apply(document: tomlkit.TOMLDocument, values: Mapping[Setting, Value | None]) -> None:
    for setting, value in values.items():
        table = document
        if setting.section:
            if value is not None and setting.section not in document:
                document[setting.section] = tomlkit.table()
            table = document.get(setting.section, {})
        if value is None:
            table.pop(setting.name, None)
        else:
            table[setting.name] = value


def edit_settings(layer: Layer, path: Path) -> bool:
    """Opens a file in the user's editor and saves what was written, unless it is broken; returns whether it changed.

    Raises:
        PalimpsestError: there is no editor; or what was written cannot be used, or the file was changed meanwhile: what
            was written is kept in a file beside.
        ComponentFailed: the editor failed.
    """
    command = _editor()
    before = _bytes(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft.toml")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(draft, before)
    try:
        done = subprocess.run([*command, str(draft)], check=False)  # noqa: S603 (the user's own editor, without a shell)
    except OSError as e:
        draft.unlink(missing_ok=True)
        raise ComponentFailed(f"editor {command[0]}: {e.strerror}; set EDITOR to one that is installed") from None
    after = draft.read_bytes() if draft.exists() else before
    if done.returncode:
        draft.unlink(missing_ok=True)
        raise ComponentFailed(f"editor {command[0]}: ended with code {done.returncode}; nothing was saved")
    if after == before:
        draft.unlink(missing_ok=True)
        return False
    try:
        with _one_at_a_time():
            if _bytes(path) != before:
                raise PalimpsestError(f"{path}: was changed by another command while it was edited; edit it again")
            _save(layer, path, after)
    except PalimpsestError as e:
        raise PalimpsestError(f"nothing was saved: {e}; your text is in {draft}") from None
    draft.unlink(missing_ok=True)
    return True


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else _NEW.encode()


def _save(layer: Layer, path: Path, data: bytes) -> None:
    check_settings(layer, path, data)
    if layer == "project":
        write_bytes(path, data)
        path.chmod(path.stat().st_mode & ~0o022)  # whatever the umask: a file that others may write is refused
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(path, data)


def _editor() -> list[str]:
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        command = shlex.split(named)
    except ValueError as e:
        raise PalimpsestError(f"EDITOR: {named[:80]!r}: {e}; correct it") from None
    command = command or [found for name in _EDITORS if (found := shutil.which(name))][:1]
    if not command:
        raise PalimpsestError("no editor is set; set EDITOR, or use palimpsest config set KEY VALUE")
    return command
