"""The commands `palimpsest document ...`; `documents` is another name of the group."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from palimpsest.cli.shared import FOLDER, Output, columns, common, confirm, visible
from palimpsest.core.counted import counted
from palimpsest.store.home import Home

if TYPE_CHECKING:
    from palimpsest.build.document_info import DocumentInfo

_TITLE_CHARS = 32
_collection = click.option("--collection", help="Where it is. [default: the only one that has it]")


@click.group(short_help="List, view, replace and delete documents.")
def document() -> None:
    """List the documents of a home, view one, replace what one of the inbox says, or delete one.

    For those who run a home: what is shown is not limited to one user unless --user names one.
    """


@document.command("list", short_help="List the documents that exist now.")
@common
@click.option("--collection", help="Only of this collection.")
@click.option("--user", help="Only of this user.")
def list_(home_path: Path, as_json: bool, backend: str, collection: str | None, user: str | None) -> None:
    """List the documents that exist now as a table; --json has all that is known of each.

    A document is pending until a build has read it.
    """
    from palimpsest.build.document_info import list_documents

    found, out = list_documents(Home(home_path), collection, user), Output(as_json)
    if found:
        rows = [("ID", "TITLE", "SOURCE", "USER", "CHUNKS", "STATE"), *map(_row, found)]
        out.text(visible("\n".join(columns(rows))))
    if not found:
        out.text("no documents")
    out.result({"documents": [d.to_json() for d in found]})


def _row(document: "DocumentInfo") -> tuple[str, ...]:
    d, title = document, " ".join((document.title or "").split())
    return (
        d.document_id or "-",
        (f"{title[: _TITLE_CHARS - 1]}…" if len(title) > _TITLE_CHARS else title) or "-",
        f"{d.collection}: {d.uri}{f'#{d.session_id}' if d.session_id else ''}",
        f"{d.user_id}{f'/{d.project_id}' if d.project_id else ''}" or "-",
        str(d.chunks),
        f"{d.state}{f': {d.reason}' if d.reason else ''}",
    )


@document.command(short_help="Print the text of a document as the home has it.")
@common
@click.argument("uri")
@_collection
@click.option("--user", help="Only what is of this user.")
def view(home_path: Path, as_json: bool, backend: str, uri: str, collection: str | None, user: str | None) -> None:
    """Print the text of a document as the home has it: URI is its path inside the collection, or URI#SESSION."""
    from palimpsest.build.document_info import view_document

    found, out = view_document(Home(home_path), uri, collection, user), Output(as_json)
    for d in found:
        i = d.info
        session = f"#{i.session_id}" if i.session_id else ""
        whose = f"user {i.user_id}{f', project {i.project_id}' if i.project_id else ''}"
        of = f", of {i.source_time}" if i.source_time else ""
        lines = (
            f"== {i.collection}: {i.uri}{session}{f' ({i.title})' if i.title else ''}",
            f"{whose}, {i.media_type}{of}, version {d.version} read {d.read_at}",
            f"{counted(i.memories, 'memory')}, {i.latest:,} latest" if i.state == "built" else i.state,
            *(f"{name}: {value}" for name, value in sorted(d.metadata.items())),
            f"\n{d.text}",
        )
        out.text(visible("\n".join(lines)))
    out.result({"documents": [d.to_json() for d in found]})


@document.command(short_help="Replace what a document of the inbox says.")
@common
@click.argument("uri")
@click.argument("file", type=FOLDER)
@_collection
def update(home_path: Path, as_json: bool, backend: str, uri: str, file: Path, collection: str | None) -> None:
    """Replace what a document of the inbox says by FILE; the next build makes a new version of it.

    A document of a collection's folder is a file of yours: the command says where, edit it there. A page of the web is
    read again by palimpsest ingest url.
    """
    from palimpsest.build.document_info import find_source
    from palimpsest.sources.inbox.replace import replace_source

    home = Home(home_path)
    name, source = find_source(home, uri, collection)
    out, written = Output(as_json), replace_source(home, name, source, file)
    out.text(f"{name}: {source} is replaced; palimpsest build makes a new version of it")
    out.result({"collection": name, "uri": source, "file": str(written)})


@document.command(short_help="Delete a document from every build and log, and prove it.")
@common
@click.argument("uri")
@_collection
@click.option("--dry-run", is_flag=True, help="List what would be deleted, and delete nothing.")
@click.option("--yes", is_flag=True, help="Do not prompt for confirmation.")
def delete(
    home_path: Path, as_json: bool, backend: str, uri: str, collection: str | None, dry_run: bool, yes: bool
) -> None:
    """Delete a document as `palimpsest delete --document` does: URI is its path in the collection, or URI#SESSION."""
    from palimpsest.build.delete import delete as delete_from

    if not dry_run:
        confirm(f"Delete {uri} with all of its memories from home {home_path}?", yes)
    out = Output(as_json)
    done = delete_from(Home(home_path), document=uri, collection=collection, dry_run=dry_run)
    out.text(done.text)
    out.result(done.to_json())
