"""What is shown of settings: on the command line, and in the reference of environment variables."""

import re
from collections.abc import Iterator

from palimpsest.core.configuration.layers import Resolved
from palimpsest.core.configuration.setting_table import SECTIONS, SETTINGS
from palimpsest.core.json_types import JsonObject

_CREDENTIALS = re.compile(r"(?<=://)\S+(?=@)")
_HIDDEN = "(set, not shown)"


def setting_line(resolved: Resolved) -> str:
    """Returns one line: key, value, layer."""
    source = f"{resolved.source} {resolved.setting.variable}" if resolved.source == "environment" else resolved.source
    return f"{resolved.setting.key} = {_shown(resolved)} ({source})"


def setting_json(resolved: Resolved) -> JsonObject:
    """Returns a setting as JSON values; the value of a secret is null."""
    return {
        "key": resolved.setting.key,
        "variable": resolved.setting.variable,
        "value": None if resolved.value is None or resolved.setting.is_secret else _shown(resolved),
        "is_set": resolved.value is not None,
        "is_secret": resolved.setting.is_secret,
        "source": resolved.source,
        "path": None if resolved.path is None else str(resolved.path),
    }


def settings_table() -> str:
    """Returns the rows of docs/reference/environment.md: variable, key in files, default, meaning."""
    return "\n".join(_rows()) + "\n"


def _shown(resolved: Resolved) -> str:
    if resolved.value is None:
        return resolved.setting.default.replace("`", "")
    if resolved.setting.is_secret:
        return _HIDDEN if resolved.value else "(empty)"
    return _CREDENTIALS.sub("***", resolved.value)


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
