"""The commands `palimpsest remember`, which sends a text or file to the inbox, and `palimpsest operation`."""

import datetime as dt
import re
from pathlib import Path

import click

from palimpsest.cli.shared import Output, TimeParam, collection_option, common
from palimpsest.core.memory_types import MEMORY_TYPES
from palimpsest.store.home import Home


@click.command(short_help="Send a text or a file to the inbox; the next build forms it.")
@common
@click.argument("text", metavar="TEXT|FILE")
@collection_option
@click.option("--user", help="Whose it is; may be new. [default: the collection's user_id]")
@click.option("--project", help="Project that it belongs to. [default: the general memory]")
@click.option("--session", help="Conversation that it is of.")
@click.option("--type", "type_", type=click.Choice(MEMORY_TYPES), help="Type of its memories.")
@click.option("--tag", "tags", multiple=True, help="Tag of its memories. [repeatable]")
@click.option("--speaker", help="Who says a text.")
@click.option(
    "--date",
    "observed_at",
    type=TimeParam(),
    metavar="TIME",
    help="When it was stated, ISO 8601; UTC where it names no zone. [default of a text: now]",
)
@click.option("--operation-id", help="Idempotency key: a second call with the same one writes nothing. [default: new]")
def remember(
    home_path: Path,
    as_json: bool,
    backend: str,
    text: str,
    collection: str | None,
    user: str | None,
    project: str | None,
    session: str | None,
    type_: str | None,
    tags: tuple[str, ...],
    speaker: str | None,
    observed_at: dt.datetime | None,
    operation_id: str | None,
) -> None:
    """Send a text, or a file where TEXT is the path of one, to the inbox of the home; print the operation's id."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.sources.inbox import ingest_file, ingest_text
    from palimpsest.sources.inbox.destination import InboxOptions

    options: InboxOptions = {
        "collection": collection,
        "user": user,
        "project": project,
        "session": session,
        "type": type_,
        "tags": tags,
        "observed_at": observed_at,
        "operation_id": operation_id,
    }
    if not _is_file(text):
        if _is_path(text):
            raise click.UsageError(f"{text}: no such file; name a file, or write a sentence to remember")
        receipt = ingest_text(home_path, text, speaker=speaker, **options)
    elif speaker:
        raise click.UsageError("--speaker is of a text; a file states its own speakers")
    else:
        receipt = ingest_file(home_path, text, **options)
    out = Output(as_json)
    known = "" if receipt.is_new else ", as before"
    out.text(
        f"received{known}: operation {receipt.operation_id} in collection {receipt.collection}; "
        "the next palimpsest build reads it"
    )
    out.result(receipt.to_json())


@click.command(short_help="Show what became of something sent to the inbox.")
@common
@click.argument("operation_id", metavar="ID")
@click.option("--user", help="Only an operation of this user.")
def operation(home_path: Path, as_json: bool, backend: str, operation_id: str, user: str | None) -> None:
    """Show the state of an operation: received, rejected, built, published or failed, and why."""
    from palimpsest.build.operation_status import operation_status

    out = Output(as_json)
    status = operation_status(Home(home_path), operation_id, user)
    formed = f": {status.chunks} chunks, {status.entities} entities, {status.facts} facts" if status.chunks else ""
    why = f" ({status.reason})" if status.reason else ""
    out.text(f"{status.state}{formed}{why}; {status.uri} in collection {status.collection}")
    out.result(status.to_json())


def _is_path(text: str) -> bool:
    """Returns whether a text was meant as the path of a file: it is one word, with a slash or a suffix."""
    return " " not in text and ("/" in text or bool(re.search(r"\w\.[A-Za-z0-9]{2,5}$", text))) and "://" not in text


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # no text of a name: too long, or with a NUL
        return False
