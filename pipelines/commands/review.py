"""Commands by which people look at relations and decide them: review, undo, confirm."""

import json
from pathlib import Path
from typing import Any

import click

from palimpsest.commands.shared import FOLDER, Output, common
from palimpsest.errors import PalimpsestError
from palimpsest.store.home import Home

LABEL = click.Choice(["UPDATE", "EXTEND", "DERIVE", "NONE"])
_SHOWN = 160


@click.command()
@common
@click.option("--collection", help="Only of this collection.")
@click.option("--user", help="Only of this user.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@click.option("--export", "export_file", type=FOLDER, help="Write what people decided as labelled pairs, to train on.")
def review(
    home_path: Path,
    as_json: bool,
    backend: str,
    collection: str | None,
    user: str | None,
    limit: int,
    export_file: Path | None,
) -> None:
    """List relations that a person should look at, the gravest first."""
    import polars as pl

    from palimpsest.labels.review import TABLES, build_of, labelled_pairs, review_table

    out, home = Output(as_json), Home(home_path)
    rows = review_table(build_of(home).tables(TABLES))
    rows = rows.filter(
        (pl.col("collection") == collection) if collection else pl.lit(True),
        (pl.col("user_id") == user) if user else pl.lit(True),
    )
    shown = rows.head(limit).to_dicts()
    out.text("\n".join(_lines(shown)) or "nothing to review")
    if rows.height > limit:
        out.text(f"… and {rows.height - limit} more; --limit shows them")
    result: dict[str, Any] = {"relations": shown, "total": rows.height}
    if export_file is not None:
        pairs = labelled_pairs(home)
        try:
            export_file.write_text("".join(json.dumps(p, ensure_ascii=False) + "\n" for p in pairs), encoding="utf-8")
        except OSError as e:
            raise PalimpsestError(f"--export {export_file}: {e.strerror}; name another") from None
        out.text(f"wrote {len(pairs)} decided pairs: {export_file}")
        result["exported"] = len(pairs)
    out.result(result)


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for r in rows:
        instead = f" instead of {r['instead_of']}" if r["instead_of"] else ""
        lines.append(f"{r['relation_id']}  {r['label']}{instead}, {r['why']}, {r['confidence']:.2f} by {r['labeler']}")
        lines += [f"    {side}: {' '.join((r[side] or '').split())[:_SHOWN]}" for side in ("older", "newer")]
    return lines


@click.command()
@common
@click.argument("relation", nargs=-1, required=True)
@click.option("--as", "label", type=LABEL, help="What it is instead. [default: NONE]")
def undo(home_path: Path, as_json: bool, backend: str, relation: tuple[str, ...], label: str | None) -> None:
    """Say that a relation is wrong: RELATION is its id, or the ids of its two memories. What it retired comes back."""
    _decide(home_path, as_json, "undo", relation, label)


@click.command()
@common
@click.argument("relation", nargs=-1, required=True)
@click.option("--as", "label", type=LABEL, help="The right label. [default: the one it has, or was nearly given]")
def confirm(home_path: Path, as_json: bool, backend: str, relation: tuple[str, ...], label: str | None) -> None:
    """Say that a relation is right, or what is: RELATION is its id, or the ids of its two memories."""
    _decide(home_path, as_json, "confirm", relation, label)


def _decide(home_path: Path, as_json: bool, kind: str, relation: tuple[str, ...], label: str | None) -> None:
    from palimpsest.labels.review import decide

    if len(relation) > 2:
        raise click.UsageError("name one relation, or two memories")
    out = Output(as_json)
    done = decide(Home(home_path), kind, relation, label)
    out.text(f"{done['relation_id']}: {done['was']} -> {done['label']}, from the next palimpsest build on")
    out.result(done)
