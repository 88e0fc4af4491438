"""The questions of `palimpsest config init`."""

import secrets
from pathlib import Path

import click

from palimpsest.core.edit_settings import Value, write_settings
from palimpsest.core.setting_layers import Layer, read_layers, resolve
from palimpsest.core.setting_table import BY_KEY, Setting
from palimpsest.store.home import DEFAULT_HOME

_KEYS = ("service.jwt_secret", "service.jwt_public_key", "service.jwks_url")
_SECRET_BYTES = 32


def run_wizard(layer: Layer, path: Path, interactive: bool) -> list[str]:
    """Asks for the settings that a first build and service need, writes them, and returns the keys written.

    What is set already is the default of the prompt, and stays without one.

    Args:
        layer: which file is written.
        path: of it.
        interactive: whether to prompt.

    Raises:
        PalimpsestError: the file cannot be used as it is.
    """
    known = {r.setting.key: r.value for r in resolve(read_layers()) if r.value}
    built = Path(DEFAULT_HOME).absolute()  # what a build in this folder made, such as that of the demo
    home = Path(DEFAULT_HOME) if layer == "project" else built if built.is_dir() else _data_folder() / "home"
    defaults = {"home": str(home), "backend": "duckdb", "service.port": "8765", "lm.server": ""}
    texts = {
        "home": "Folder for everything that a build writes",
        "backend": "Where queries are answered: duckdb needs no server, neo4j does",
        "lm.server": "Language model as MODEL@URL, empty for none",
        "service.port": "Port of the service",
    }
    answers: dict[Setting, Value | None] = {}
    for key, text in texts.items():
        setting, suggested = BY_KEY[key], known.get(key) or defaults[key]
        answer = _ask(setting, text, suggested) if interactive else suggested
        if answer and (answer != known.get(key)):
            answers[setting] = setting.from_text(answer)
    if layer == "user" and not any(key in known for key in _KEYS):
        answers[BY_KEY["service.jwt_secret"]] = secrets.token_hex(_SECRET_BYTES)
    if answers:
        write_settings(layer, path, answers)
    return [setting.key for setting in answers]


def _ask(setting: Setting, text: str, suggested: str) -> str:
    def check(answer: str) -> str:
        try:
            if answer.strip():
                setting.from_text(answer.strip())
        except ValueError as e:
            raise click.UsageError(f"{setting.key}: {e}") from None
        return answer.strip()

    return str(click.prompt(text, default=suggested, value_proc=check, err=True))


def _data_folder() -> Path:
    import platformdirs

    return platformdirs.user_data_path("palimpsest")
