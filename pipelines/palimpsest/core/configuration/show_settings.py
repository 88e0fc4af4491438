"""What is shown of settings: on the command line, and in the reference of environment variables."""

import re
from collections.abc import Iterator

from palimpsest.core.configuration.layers import Resolved
from palimpsest.core.configuration.setting import Setting
from palimpsest.core.configuration.setting_table import SECTIONS, SETTINGS
from palimpsest.core.json_types import JsonObject

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
