"""Commands to review relations and decide them: review, undo, confirm."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from palimpsest.cli.shared import FOLDER, Call, Output, common
from palimpsest.core.errors import PalimpsestError
from palimpsest.relations.labelers.label_types import DISPUTED
from palimpsest.relations.labelers.low_trust import REVIEW_REASONS
from palimpsest.store.home import Home

if TYPE_CHECKING:
    import polars as pl

    from palimpsest.store.builds import Build

_Command = TypeVar("_Command", bound=Callable[..., object])
LABEL = click.Choice(["UPDATE", "EXTEND", "DERIVE", "NONE"])
_MAX_TEXT_CHARS = 160


def _check_names(build: "Build", memories: "pl.DataFrame", collection: str | None, user: str | None) -> None:
    """Raises ArgumentError where a collection or a user is unknown to the build."""
    from palimpsest.query.request.types import CollectionInfo, Scope
    from palimpsest.query.scope.resolve_scopes import check_names

    known = {name: CollectionInfo(name, user_id=build.manifest.default_user(name)) for name in build.collections}
    scopes = (Scope(*row) for row in memories.select("collection", "user_id").unique().iter_rows())
    check_names(known, scopes, collection, user)


@click.command()
@common
@click.option("--collection", help="Only of this collection.")
@click.option("--user", help="Only of this user.")
@click.option("--why", type=click.Choice(REVIEW_REASONS), help="Only what is listed for this reason.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@click.option("--ids", is_flag=True, help="Print every relation's id, one a line, for `palimpsest confirm -`.")
@click.option("--export", "export_file", type=FOLDER, help="Write what people decided as labelled pairs, to train on.")
def review(
    call: Call,
    collection: str | None,
    user: str | None,
    why: str | None,
    limit: int,
    ids: bool,
    export_file: Path | None,
) -> None:
    """List relations that a person should look at, the most serious first.

    Of what is disputed or was refused for low trust both memories are latest: confirm retires the older one, undo
    keeps both. Where the newer may be mistaken (a static conflict), only confirm --as UPDATE retires the older one.
    """
    import polars as pl

    from palimpsest.relations.relation_review import TABLES, current_build, review_table
    from palimpsest.relations.versions import refusal_lines, refused_replacements

    build = current_build(call.home)
    tables = build.tables(TABLES)
    _check_names(build, tables["memories"], collection, user)
    wanted = {"collection": collection, "user_id": user, "why": why}
    filters = {name: pl.col(name) == value for name, value in wanted.items() if value is not None}
    rows = review_table(tables).filter(*filters.values())
    refused = refused_replacements(tables["memories"], tables["documents"], tables["document_relations"])
    refused = refused.filter(*(f for name, f in filters.items() if name != "why"))
    shown = (rows if ids else rows.head(limit)).to_dicts()
    if ids:
        call.text("\n".join(r["relation_id"] for r in shown))
    else:
        call.text("\n".join(_lines(shown)) or "nothing to review")
        if rows.height > limit:
            call.text(f"… and {rows.height - limit} more; --limit shows them")
        if why is None and (lines := refusal_lines(refused)):
            call.text("\n".join(lines))
    result: dict[str, object] = {
        "relations": shown,
        "total": rows.height,
        "refused_replacements": [] if why else refused.to_dicts(),
    }
    if export_file is not None:
        result["exported"] = _export(call, call.home, export_file)
    call.result(result)


def _export(out: Output, home: Home, path: Path) -> int:
    from palimpsest.relations.relation_review import decided_pairs

    pairs = decided_pairs(home)
    try:
        path.write_text("".join(json.dumps(p, ensure_ascii=False) + "\n" for p in pairs), encoding="utf-8")
    except OSError as e:
        raise PalimpsestError(f"--export {path}: {e.strerror}; name another") from None
    out.text(f"wrote {len(pairs)} decided pairs: {path}")
    return len(pairs)


def _lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for r in rows:
        lines.append(f"{r['relation_id']}  {_state(r)} by {r['labeler']}")
        lines += [f"    {side}: {' '.join((r[side] or '').split())[:_MAX_TEXT_CHARS]}" for side in ("older", "newer")]
        if r["part"]:
            part = " ".join(r["older"][start:end] for start, end in json.loads(r["part"]))
            lines.append(f"    only: {' '.join(part.split())[:_MAX_TEXT_CHARS]}")
    return lines


def _state(row: Mapping[str, Any]) -> str:
    if row["why"] == DISPUTED and row["likelihood"] is not None:
        return f"{DISPUTED}, {row['likelihood']:.2f} likely that the newer ends the older"
    instead = f" instead of {row['instead_of']}" if row["instead_of"] else ""
    return f"{row['label']}{instead}, {row['why']}, {row['confidence']:.2f}"


def _relation_arguments(f: _Command) -> _Command:
    """Adds the arguments that name relations: ids, or two memories with --pair."""
    f = click.option(
        "--pair",
        "pairs",
        nargs=2,
        multiple=True,
        metavar="MEMORY MEMORY",
        help="Two memories, in either order, instead of a relation's id. May be given again.",
    )(f)
    return click.argument("relation", nargs=-1)(f)


@click.command()
@common
@_relation_arguments
@click.option("--as", "label", type=LABEL, help="What they are instead. [default: NONE]")
def undo(call: Call, relation: tuple[str, ...], pairs: tuple[tuple[str, str], ...], label: str | None) -> None:
    """Mark relations as wrong. RELATION is an id; - reads ids from stdin.

    What they retired is latest again from the next build on, unless its source was edited or something else replaces it
    too; undo reports those.
    """
    _decide(call, "undo", relation, pairs, label)


@click.command()
@common
@_relation_arguments
@click.option("--as", "label", type=LABEL, help="The right label. [default: the one each has, or was nearly given]")
def confirm(call: Call, relation: tuple[str, ...], pairs: tuple[tuple[str, str], ...], label: str | None) -> None:
    """Mark relations as right, or give the right label. RELATION is an id; - reads ids from stdin.

    An UPDATE ends only the part of the older memory that the build found; with --as UPDATE all of its text ends.
    """
    _decide(call, "confirm", relation, pairs, label)


def _decide(
    call: Call, kind: str, relation: tuple[str, ...], pairs: tuple[tuple[str, str], ...], label: str | None
) -> None:
    from palimpsest.relations.relation_review import current_build, decide

    ids = [i for name in relation for i in (_read_ids() if name == "-" else [name])]
    if not ids and not pairs:
        raise click.UsageError("name relations by id, or two memories with --pair; palimpsest review lists relations")
    decisions = decide(call.home, kind, [*((i,) for i in ids), *pairs], label)
    lines = [f"{d.relation_id}: {d.was} -> {d.label}" for d in decisions]
    lines += [f"{d.older_id} stays retired: {d.stays_retired}" for d in decisions if d.stays_retired]
    collections = _collections_of(current_build(call.home), [d.older_id for d in decisions])
    call.text("\n".join([*lines, f"{len(decisions)} decided, from the next palimpsest build of {collections} on"]))
    records = [asdict(d) for d in decisions]
    call.result({"relations": records} | (records[0] if len(records) == 1 else {}))


def _collections_of(build: "Build", memory_ids: Sequence[str]) -> str:
    """Returns the collections of memories: a build of others leaves a decision for later."""
    memories = {name: build.table(name, "memories")["memory_id"] for name in build.collections}
    found = [name for name, ids in memories.items() if ids.is_in(memory_ids).any()]
    return f"collection {', '.join(found)}"


def _read_ids() -> list[str]:
    """Returns the first word of each line of stdin: what `review --ids` prints."""
    return [line.split()[0] for line in sys.stdin if line.strip()]
