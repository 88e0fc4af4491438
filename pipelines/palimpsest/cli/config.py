"""The commands `palimpsest config ...`: what the settings are, from where, and how they are changed."""

import os
import secrets
import sys
from pathlib import Path

import click

from palimpsest.cli.shared import Output, columns, json_option
from palimpsest.core.edit_settings import Value, write_settings
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.setting_layers import Layer, read_layers, resolve
from palimpsest.core.setting_table import BY_KEY, Setting
from palimpsest.store.home import DEFAULT_HOME

_project = click.option("--project", "in_project", is_flag=True, help="In palimpsest.toml of this folder or project.")


@click.group()
def config() -> None:
    """Settings: an environment variable wins over palimpsest.toml, and that over the user's own file."""


@config.command("show", short_help="Show each setting and the layer that sets it.")
@json_option
@click.option("--changed", is_flag=True, help="Only what is not a default.")
@click.option("--explain", is_flag=True, help="Also what each setting means.")
def show(out: Output, changed: bool, explain: bool) -> None:
    """Show each setting, its value and the layer that sets it; secrets are not shown."""
    from palimpsest.core.setting_layers import check_trusted, meaning, read_layers, resolve, setting_json, setting_row

    files = read_layers()
    found = resolve(files)
    for file in files:
        out.text(f"{file.layer} file {file.path}")
    listed = [r for r in found if not changed or r.source != "default"]
    for resolved, line in zip(listed, columns([setting_row(r) for r in listed]), strict=True):
        out.text(f"{line}\n    {meaning(resolved.setting)}" if explain else line)
    out.result({"settings": [setting_json(r) for r in found], "files": {f.layer: str(f.path) for f in files}})
    check_trusted(files, found)


@config.command(short_help="Print the value of one setting.")
@json_option
@click.argument("key")
def get(out: Output, key: str) -> None:
    """Print the value of KEY that counts, such as lm.server; a secret is not shown."""
    from palimpsest.core.setting_layers import (
        check_trusted,
        read_layers,
        resolve,
        setting_json,
        setting_of,
        shown_value,
    )

    setting, files = setting_of(key), read_layers()
    found = next(r for r in resolve(files) if r.setting is setting)
    check_trusted(files, [found])
    out.show(shown_value(found), setting_json(found))


@config.command()
@json_option
def path(out: Output) -> None:
    """Print where the two files of settings are, or would be."""
    from palimpsest.core.setting_layers import project_file, user_file

    project, user = project_file(), user_file()
    for layer, file in (("project", project), ("user", user)):
        out.text(f"{layer}: {file}{'' if file.exists() else ' (not there)'}")
    out.result(
        {"project": str(project), "user": str(user), "exists": {"project": project.exists(), "user": user.exists()}}
    )


@config.command(short_help="Open the user's file, or the project's, in an editor.")
@json_option
@_project
def edit(out: Output, in_project: bool) -> None:
    """Open the user's file, or the project's, in $VISUAL or $EDITOR; what is broken is not saved."""
    from palimpsest.core.edit_settings import edit_settings

    layer, file = _file(in_project)
    is_changed = edit_settings(layer, file)
    out.show(f"{file}: {'saved' if is_changed else 'nothing changed'}", {"path": str(file), "changed": is_changed})


@config.command("set", short_help="Set one setting in the user's file, or the project's.")
@json_option
@_project
@click.argument("key")
@click.argument("value", required=False, type=click.UNPROCESSED)  # an empty one is a value too
def set_(out: Output, in_project: bool, key: str, value: str | None) -> None:
    """Set KEY, such as lm.server, in the user's file or in the project's.

    A secret is never given as VALUE, where other users and the history of the shell see it: it is prompted for, or read
    from stdin.
    """  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.core.edit_settings import write_settings
    from palimpsest.core.setting_layers import setting_of, without_credentials

    setting, (layer, file) = setting_of(key), _file(in_project)
    if setting.is_secret and value is not None:
        raise click.UsageError(f"{setting.key} is a secret: leave VALUE out and type it, or write it to stdin")
    if value is None:
        value = _read_value(setting.key, setting.is_secret)
    try:
        if setting.kind == "path":  # as typed here, not relative to the file
            path = Path(value).expanduser().absolute()
            value = os.path.relpath(path, file.parent.absolute()) if layer == "project" else str(path)
        stored = setting.from_text(value)
        write_settings(layer, file, {setting: stored})
    except ValueError as e:
        raise click.UsageError(f"{setting.key}: {e}") from None
    out.text(f"{file}: {setting.key} is set" + ("" if setting.is_secret else f" to {without_credentials(value)}"))
    if os.environ.get(setting.variable):
        out.text(f"{setting.variable} is set in the environment and counts before it")
    out.result({"path": str(file), "key": setting.key})


@config.command()
@json_option
@_project
@click.argument("key")
def unset(out: Output, in_project: bool, key: str) -> None:
    """Remove KEY from the user's file, or from the project's."""
    from palimpsest.core.edit_settings import write_settings
    from palimpsest.core.setting_layers import read_layers, read_settings_file, resolve, setting_of, setting_row

    setting, (layer, file) = setting_of(key), _file(in_project)
    before = read_settings_file(layer, file)
    if before is None or setting.key not in before.values:
        out.text(f"{file}: does not set {setting.key}; nothing changed")
    else:
        write_settings(layer, file, {setting: None})
        _, value, source = next(setting_row(r) for r in resolve(read_layers()) if r.setting is setting)
        out.text(f"{file}: {setting.key} is removed; it is now {value} ({source})")
    out.result({"path": str(file), "key": setting.key})


@config.command(short_help="Trust the project file as it is now.")
@json_option
def trust(out: Output) -> None:
    """Show what the project file sets, and trust it as it is now: it may decide where texts and keys are sent."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.core.setting_layers import project_file, read_settings_file, without_credentials
    from palimpsest.core.setting_layers import trust as trust_file

    file = read_settings_file("project", project_file())
    if file is None:
        raise PalimpsestError(f"{project_file()}: is not there; palimpsest config init --project makes it")
    settings = {key: without_credentials(value) for key, value in sorted(file.values.items())}
    out.text("\n".join(f"{key} = {value}" for key, value in settings.items()))
    trust_file(file.path, file.data)
    out.show(f"{file.path} is trusted until it changes", {"path": str(file.path), "settings": settings})


@config.command(short_help="Prompt for the most important settings and write them.")
@json_option
@_project
@click.option("--yes", is_flag=True, help="Do not prompt: take what is set, else the defaults.")
def init(out: Output, in_project: bool, yes: bool) -> None:
    """Prompt for home, backend, language model and port, and write them; without a terminal the defaults are taken.

    In the user's file it also makes a secret for the tokens of the service, where no key is set.
    """
    layer, file = _file(in_project)
    written = run_wizard(layer, file, interactive=not yes and sys.stdin.isatty())
    out.text(f"{file}: {', '.join(written) if written else 'nothing new'}; palimpsest config show lists all settings")
    out.result({"path": str(file), "keys": written})


def _file(in_project: bool) -> tuple[Layer, Path]:
    from palimpsest.core.setting_layers import project_file, user_file

    return ("project", project_file()) if in_project else ("user", user_file())


def _read_value(key: str, is_secret: bool) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(key, hide_input=is_secret, confirmation_prompt=is_secret))
    if not (value := sys.stdin.readline().rstrip("\r\n")):
        raise click.UsageError(f"{key}: no value; give VALUE, or write it to stdin")
    return value


# The questions of `palimpsest config init`.

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
