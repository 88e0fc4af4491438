"""Markdown of the command line and of settings, for docs/reference."""

from collections.abc import Iterator

import click
from pydantic import BaseModel


def commands_markdown() -> str:
    """Returns a section with the help text of each command, groups before their subcommands, in the order of --help."""
    from palimpsest.cli.main import cli

    sections = [f"## {path}\n\n```text\n{help_text}\n```\n" for path, help_text in _help_texts(cli)]
    return "\n" + "\n".join(sections)


def _help_texts(root: click.Group) -> Iterator[tuple[str, str]]:
    pending: list[tuple[str, click.Command, click.Context | None]] = [("palimpsest", root, None)]
    while pending:
        path, command, parent = pending.pop(0)
        # A fixed width, so that the text does not depend on the terminal.
        name = path.rpartition(" ")[2]
        context = click.Context(
            command,
            info_name=name,
            parent=parent,
            terminal_width=100,
            max_content_width=100,
            help_option_names=["-h", "--help"],
        )
        if path != "palimpsest":
            yield path, command.get_help(context).rstrip()
        if isinstance(command, click.Group):
            names = command.list_commands(context)
            children = [
                (f"{path} {n}", c, context) for n in names if (c := command.get_command(context, n)) and not c.hidden
            ]
            pending = children + pending


def search_markdown() -> str:
    """Returns a table of the fields of a search: in Python, on the command line, in the service, default, meaning."""
    from palimpsest.cli.query import flag_of
    from palimpsest.query.request.search_request import OPTIONS, offer

    lines = ["", "| Python | command line | service | default | meaning |", "|---|---|---|---|---|"]
    for name, field in OPTIONS.items():
        served = f"`{name}`" if offer(field).served else ""
        default = _default(field.default or None, is_required=False) if field.default is not False else "`false`"
        lines.append(f"| `{name}` | `{flag_of(name, field)}` | {served} | {default} | {field.description} |")
    return "\n".join([*lines, ""])


def settings_markdown(model: type[BaseModel]) -> str:
    """Returns a table of the fields of a settings model: name, default, meaning."""
    lines = ["", "| field | default | meaning |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        lines.append(f"| `{name}` | {_default(field.get_default(), field.is_required())} | {field.description or ''} |")
    return "\n".join([*lines, ""])


def _default(value: object, is_required: bool) -> str:
    if is_required:
        return "required"
    if value is None or isinstance(value, BaseModel):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"{value:,}" if isinstance(value, int | float) else f"`{value}`"


def formats_markdown() -> str:
    """Returns the table of the formats that are read without another package, with their suffixes."""
    from palimpsest.sources.readers.registry import formats_by_suffix

    suffixes: dict[str, list[str]] = {}
    for suffix, found in formats_by_suffix().items():
        if not found.package:
            suffixes.setdefault(found.name, []).append(f"`{suffix}`")
    rows = [f"| {name} | {', '.join(names)} |" for name, names in suffixes.items()]
    return "\n".join(["| format | files |", "|---|---|", *rows]) + "\n"
