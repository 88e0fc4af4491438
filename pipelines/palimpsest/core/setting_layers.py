"""Environment over project file over user file over default: what each setting is, and from where."""

import difflib
import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import read_json_object, write_json
from palimpsest.core.ids import JsonObject
from palimpsest.core.setting_table import BY_KEY, BY_VARIABLE, SECTIONS, SETTINGS, Setting

# The two files of settings: where they are, and how one is read although it may be anybody's.
#
# A project file is found in the working folder or, inside a git repository, in a folder above it up to the root of the
# repository. A file that another user owns, or that its group or others may write, is refused, not skipped: what it was
# to set would silently be something else.

PROJECT_FILE = "palimpsest.toml"
Layer = Literal["project", "user"]
_MAX_BYTES = 256 * 1024
_ROOT_USER = 0


@dataclass(frozen=True)
class SettingsFile:
    """A file that was read and checked against the table of settings.

    Attributes:
        layer: which of the two it is.
        path: of it.
        data: its bytes.
        values: what each setting's variable would be, by key.
    """

    layer: Layer
    path: Path
    data: bytes
    values: Mapping[str, str]


def user_file() -> Path:
    """Returns where the user's file is, which need not exist."""
    import platformdirs

    return platformdirs.user_config_path("palimpsest") / "config.toml"


def project_file(folder: Path | None = None) -> Path:
    """Returns where the project file is: the nearest one, else where one would be made.

    Args:
        folder: the working folder; None means that of the process.

    Raises:
        PalimpsestError: the working folder of the process is gone.
    """
    try:
        folder = (folder or Path.cwd()).absolute()
    except FileNotFoundError:
        raise PalimpsestError("the working folder is gone; change to another one") from None
    searched = list(_folders_of_repository(folder))
    return next((f / PROJECT_FILE for f in searched if os.path.lexists(f / PROJECT_FILE)), folder / PROJECT_FILE)


def _folders_of_repository(folder: Path) -> Iterator[Path]:
    """Yields the folder and those above it up to the root of its git repository; alone the folder outside of one."""
    above = [folder, *folder.parents]
    root = next((i for i, f in enumerate(above) if (f / ".git").exists()), 0)
    yield from above[: root + 1]


def read_settings_file(layer: Layer, path: Path) -> SettingsFile | None:
    """Returns what a file sets, or None where there is none.

    Raises:
        PalimpsestError: it cannot be read, is not safe to read, is no TOML, or sets what it may not.
    """
    data = _read(layer, path)
    if data is None:
        return None
    found = check_settings(layer, path, data)
    _check_private(path, found.values)
    return found


def check_settings(layer: Layer, path: Path, data: bytes) -> SettingsFile:
    """Returns what the bytes of a file set.

    Raises:
        PalimpsestError: they are no TOML, or set what they may not; the message names the line or the key.
    """
    try:
        table = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as e:
        line = data[: e.start].count(b"\n") + 1
        raise PalimpsestError(f"{path}: line {line}: is no UTF-8; write it again") from None
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        editing = "config edit --project" if layer == "project" else "config edit"
        raise PalimpsestError(f"{path}: is no TOML: {str(e)[:200]}; palimpsest {editing} opens it") from None
    found = {}
    for key, value in _flat(path, table):
        setting = _known(path, key)
        if setting.is_secret and layer == "project":
            raise PalimpsestError(
                f"{path}: {setting.key}: a project file is shared, and may have no secret; remove it, then palimpsest "
                f"config set {setting.key}, or set {setting.variable}"
            )
        try:
            found[setting.key] = setting.to_variable(value, path.parent)
        except ValueError as e:  # without the value: a password may be in an address, or in the wrong line
            quoted = isinstance(value, str) and setting.kind in ("whole", "amount", "switch")
            unquote = "; remove the quotes, or correct it" if quoted else ""
            raise PalimpsestError(f"{path}: {setting.key}: {e}{unquote}") from None
    return SettingsFile(layer, path, data, found)


def setting_of(name: str) -> Setting:
    """Returns the setting of a key or of a variable.

    Raises:
        PalimpsestError: there is none; the message names the closest.
    """
    if (found := BY_KEY.get(name) or BY_VARIABLE.get(name)) is None:
        raise PalimpsestError(f"no setting {name[:80]!r}; {_closest(name)}")
    return found


def _known(path: Path, key: str) -> Setting:
    if (setting := BY_KEY.get(key)) is not None:
        return setting
    if (setting := BY_VARIABLE.get(key)) is not None:
        raise PalimpsestError(f"{path}: no setting {key!r}; in a file it is {setting.key}")
    raise PalimpsestError(f"{path}: no setting {key[:80]!r}; {_closest(key)}")


def _closest(name: str) -> str:
    by_name = [key for key in BY_KEY if key.rpartition(".")[2] == name.rpartition(".")[2]]
    close = difflib.get_close_matches(name, [*BY_KEY, *BY_VARIABLE], n=1, cutoff=0.7) or by_name[:1]
    return f"use {close[0]}" if close else "palimpsest config show lists them"


def _flat(path: Path, table: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", v) for inner, v in value.items())
        elif name in SECTIONS:
            raise PalimpsestError(f"{path}: {name} is a section; write [{name}], and a setting of it below")
        else:
            yield name, value


def _read(layer: Layer, path: Path) -> bytes | None:
    try:
        # Without waiting: a named pipe would never answer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise PalimpsestError(f"{path}: is a link that leads nowhere; remove it") from None
        return None
    except OSError as e:
        raise PalimpsestError(f"{path}: cannot be read: {e.strerror}; correct its mode, or remove it") from None
    try:
        _check_safe(path, os.fstat(descriptor))
        data = os.read(descriptor, _MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > _MAX_BYTES:
        raise PalimpsestError(f"{path}: has more than {_MAX_BYTES // 1024} KiB; it is no file of settings")
    return data


def _check_safe(path: Path, state: os.stat_result) -> None:
    """Checks that a file is a regular one that no other user owns or may write.

    Raises:
        PalimpsestError: it is not.
    """
    if not stat.S_ISREG(state.st_mode):
        raise PalimpsestError(f"{path}: is no regular file; remove it")
    owners = {state.st_uid, path.lstat().st_uid}
    if not owners <= {os.geteuid(), _ROOT_USER}:
        raise PalimpsestError(
            f"{path}: belongs to another user, who could decide where your memories are sent; change its owner, or "
            "work in another folder"
        )
    if state.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        who = "every user" if state.st_mode & stat.S_IWOTH else "its group"
        raise PalimpsestError(
            f"{path}: {who} may write it, and could decide where your memories are stored and sent; chmod go-w {path}"
        )


def _check_private(path: Path, values: Mapping[str, str]) -> None:
    """Checks that nobody else reads a file with secrets.

    Raises:
        PalimpsestError: its mode lets others read it.
    """
    secret = next((key for key in values if BY_KEY[key].is_secret), None)
    if secret is not None and path.stat().st_mode & 0o077:
        raise PalimpsestError(f"{path}: {secret} is a secret, and others may read the file; chmod 600 {path}")


# Project files that the user has read and trusted, each as it was then: a changed file is read again.

_FILE = "trusted.json"


def is_trusted(path: Path, data: bytes) -> bool:
    """Returns whether the user has trusted a file with this content.

    Raises:
        DamagedFile: the list of trusted files is damaged.
    """
    listed = read_json_object(_list_path(), "remove it, and trust your project files again") or {}
    return listed.get(str(path.resolve())) == _hash(data)


def trust(path: Path, data: bytes) -> None:
    """Records that the user trusts a file with this content.

    Args:
        path: of the file.
        data: what the user was shown of it.

    Raises:
        DamagedFile: the list of trusted files is damaged.
    """
    listed = _list_path()
    known = read_json_object(listed, "remove it, and trust your project files again") or {}
    listed.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_json(listed, known | {str(path.resolve()): _hash(data)})
    listed.chmod(0o600)


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def _list_path() -> Path:
    import platformdirs

    return platformdirs.user_config_path("palimpsest") / _FILE


FILES_VARIABLE = "PALIMPSEST_CONFIG"
"""`off` reads no file: the environment says all."""
Source = Literal["environment", "project", "user", "default"]


@dataclass(frozen=True)
class Resolved:
    """What a setting is.

    Attributes:
        setting: the setting.
        value: what its variable is; None where no layer sets it.
        source: the layer that sets it.
        path: of the file that sets it.
    """

    setting: Setting
    value: str | None
    source: Source
    path: Path | None = None


def read_layers(folder: Path | None = None) -> list[SettingsFile]:
    """Returns the files that are there, the project's before the user's.

    Args:
        folder: the working folder; None means that of the process.

    Raises:
        PalimpsestError: a file cannot be used.
    """
    if os.environ.get(FILES_VARIABLE, "").strip().lower() == "off":
        return []
    found = (
        read_settings_file("project", project_file(folder)),
        read_settings_file("user", user_file()),
    )
    return [file for file in found if file is not None]


def resolve(files: list[SettingsFile], environment: Mapping[str, str] = os.environ) -> list[Resolved]:
    """Returns what every setting is, in the order of the table."""
    set_by = dict(_set_by(files, environment))
    return [set_by.get(setting.key, Resolved(setting, None, "default")) for setting in SETTINGS]


def apply_layers(folder: Path | None = None, environment: MutableMapping[str, str] = os.environ) -> list[Resolved]:
    """Sets the variables that files give and the environment does not, for this process and those that it starts.

    Raises:
        PalimpsestError: a file cannot be used, or the project file decides where texts or keys are sent and nobody
            has trusted it.
    """
    files = read_layers(folder)
    found = resolve(files, environment)
    check_trusted(files, found)
    for resolved in found:
        if resolved.path is not None and resolved.value is not None:
            environment[resolved.setting.variable] = resolved.value
    return found


def check_trusted(files: list[SettingsFile], found: list[Resolved]) -> None:
    """Checks that what the project file may not decide alone was trusted by the user.

    Raises:
        PalimpsestError: it was not.
    """
    directing = ", ".join(r.setting.key for r in found if r.source == "project" and r.setting.directs)
    for file in files if directing else ():
        if file.layer == "project" and not is_trusted(file.path, file.data):
            raise PalimpsestError(
                f"{file.path}: sets {directing}, which decides where texts and keys are sent, which model is loaded or "
                "who is believed; read it, then palimpsest config trust"
            )


def _set_by(files: list[SettingsFile], environment: Mapping[str, str]) -> Iterator[tuple[str, Resolved]]:
    """Yields the layer that sets each setting that one sets.

    Of alternatives the highest layer counts that sets any: a key in the environment hides another kind in a file.
    """
    hidden: dict[str, int] = {}
    seen: set[str] = set()
    layers: list[tuple[Source, Path | None, Mapping[str, str]]] = [
        ("environment", None, {s.key: environment[s.variable] for s in SETTINGS if s.variable in environment}),
        *((file.layer, file.path, file.values) for file in files),
    ]
    for height, (source, path, values) in enumerate(layers):
        for key, value in values.items():
            setting = BY_KEY[key]
            group = setting.alternatives
            if key in seen or (group and hidden.get(group, height) != height):
                continue
            seen.add(key)
            if value:
                hidden.setdefault(group, height)
            yield key, Resolved(setting, value, source, path)


# What is shown of settings: on the command line, and in the reference of environment variables.

_CREDENTIALS = re.compile(r"(?<=://)\S+(?=@)")
_LINK = re.compile(r" ?\(\[[^]]*\]\([^)]*\)\)")
_HIDDEN = "(set, not shown)"


def setting_row(resolved: Resolved) -> tuple[str, str, str]:
    """Returns key, value and layer for people."""
    source = f"{resolved.source} {resolved.setting.variable}" if resolved.source == "environment" else resolved.source
    return resolved.setting.key, shown_value(resolved), source


def meaning(setting: Setting) -> str:
    """Returns what a setting is, as plain text."""
    return _LINK.sub("", setting.description).replace("`", "")


def setting_json(resolved: Resolved) -> JsonObject:
    """Returns a setting as JSON values; the value of a secret is null."""
    return {
        "key": resolved.setting.key,
        "variable": resolved.setting.variable,
        "value": None if resolved.value is None or resolved.setting.is_secret else shown_value(resolved),
        "is_set": resolved.value is not None,
        "is_secret": resolved.setting.is_secret,
        "default": _default(resolved.setting),
        "meaning": meaning(resolved.setting),
        "source": resolved.source,
        "path": None if resolved.path is None else str(resolved.path),
    }


def settings_table() -> str:
    """Returns the rows of docs/reference/environment.md: variable, key in files, default, meaning."""
    return "\n".join(_rows()) + "\n"


def shown_value(resolved: Resolved) -> str:
    """Returns the value that counts, without what is secret in it."""
    if resolved.value is None:
        return _default(resolved.setting) or "not set"
    if resolved.setting.is_secret:
        return _HIDDEN if resolved.value else "(empty)"
    return without_credentials(resolved.value)


def without_credentials(text: str) -> str:
    """Returns a text with `***` in place of the user and password of an address."""
    return _CREDENTIALS.sub("***", text)


def _default(setting: Setting) -> str | None:
    return None if setting.default == "none" else setting.default.replace("`", "")


def _rows() -> Iterator[str]:
    yield "| variable | in files | default | meaning |"
    yield "|---|---|---|---|"
    section = ""
    for setting in SETTINGS:
        if setting.section != section:
            section = setting.section
            yield f"| **{SECTIONS[section]}** | | | |"
        meaning = setting.description + ("; a secret" if setting.is_secret else "")
        yield f"| `{setting.variable}` | `{setting.key}` | {setting.default} | {meaning} |"
