"""Environment over project file over user file over default: what each setting is, and from where."""

import os
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from palimpsest.core.configuration.setting import Setting
from palimpsest.core.configuration.setting_files import SettingsFile, project_file, read_settings_file, user_file
from palimpsest.core.configuration.setting_table import BY_KEY, SETTINGS
from palimpsest.core.configuration.trusted_files import is_trusted
from palimpsest.core.errors import PalimpsestError

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


def missing(*keys: str) -> PalimpsestError:
    """Returns the error for a setting that a command needs and no layer gives.

    Args:
        *keys: of the settings, one of which is enough.
    """
    names = " or ".join(f"{key} ({BY_KEY[key].variable})" for key in keys)
    return PalimpsestError(
        f"{names} is required, and neither the environment nor a file sets it; palimpsest config set {keys[0]}, or "
        "palimpsest config init"
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
