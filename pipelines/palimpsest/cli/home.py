"""Commands about a home as a whole: upgrade, backup, delete, export, logs, housekeeping."""

import datetime as dt
import re
import sys
from functools import partial
from pathlib import Path

import click

from palimpsest.cli.shared import FOLDER, Call, common, confirm
from palimpsest.core.errors import PalimpsestError
from palimpsest.core.files import counted
from palimpsest.store.backup_archive import PASSWORD_VARIABLE, read_password
from palimpsest.store.event_log import LEVELS, Event, Level, read_events


@click.group()
def home() -> None:
    """About a home as a whole."""


@home.command()
@common
@click.option(
    "--corpus",
    "corpora",
    type=FOLDER,
    multiple=True,
    help="Folder of collections, where the home does not have their settings. May be given again.",
)
def upgrade(call: Call, corpora: tuple[Path, ...]) -> None:
    """Make the build of a home again from its log as this version makes it, and publish it if the gate agrees."""
    from palimpsest_eval.runs.judge_build import upgrade_home

    done = upgrade_home(call.home, list(corpora) or None)
    if done.before == done.format:
        call.text(f"home {call.home_path}: has format {done.format} already; nothing to do")
    else:
        call.text(
            f"home {call.home_path}: upgraded from format {done.before} to {done.format}; build {done.build_id}, "
            f"{counted(done.memories, 'memory')}, digest {done.digest}"
        )
    call.result(done.to_json())


# The commands `palimpsest backup` and `palimpsest restore`.


@click.command()
@common
@click.argument("file", type=FOLDER)
@click.option(
    "--keep",
    type=click.IntRange(1, 10_000),
    help="FILE is a folder: write a dated backup there and keep the newest N of this home.",
    metavar="N",
)
@click.option("--encrypt", is_flag=True, help="Encrypt it with the password in PALIMPSEST_BACKUP_PASSWORD.")
@click.option("--password-file", type=FOLDER, help="Encrypt it with the password in this file.")
def backup(call: Call, file: Path, keep: int | None, encrypt: bool, password_file: Path | None) -> None:
    """Write a consistent copy of the home into FILE: the record, the published build and its index.

    With --keep N, FILE is a folder of dated backups, of which the newest N of this home stay.
    """  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.pipeline.backup import backup_dated, backup_home

    password = read_password(password_file, PASSWORD_VARIABLE) if encrypt or password_file else None
    if encrypt and password is None:
        raise PalimpsestError(f"--encrypt: no password; set {PASSWORD_VARIABLE}, or name a file with --password-file")
    series = backup_dated(call.home, file, keep, password) if keep else None
    done = series.backup if series else backup_home(call.home, file, password)
    sealed = "encrypted" if done.encrypted else "not encrypted"
    of = f"build {done.build_id}, digest {done.digest}" if done.build_id else "no build is published"
    call.text(f"{done.file}: {counted(done.files, 'file')}, {done.bytes >> 20:,} MiB, {sealed}; {of}")
    for removed in series.removed if series else ():
        call.text(f"removed {removed}")
    call.result((series or done).to_json())


@click.command()
@common
@click.argument("file", type=FOLDER)
@click.option("--password-file", type=FOLDER, help="File with the password. [default: $PALIMPSEST_BACKUP_PASSWORD]")
@click.option("--force", is_flag=True, help="Move a home that is there aside; it stays as HOME.before-restore-N.")
def restore(call: Call, file: Path, password_file: Path | None, force: bool) -> None:
    """Restore the home that FILE is a backup of, and check every file and the digest of its build."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.cli.processes import BUILDS, SERVICE, read_record
    from palimpsest.pipeline.backup import restore_home

    records = {c.name: read_record(call.home_path, c.name) for c in (SERVICE, BUILDS)}
    if running := [name for name, record in records.items() if record and record.is_running]:
        raise PalimpsestError(
            f"home {call.home_path}: its {running[0]} runs; stop it with palimpsest service stop first"
        )
    done = restore_home(file, call.home, read_password(password_file, PASSWORD_VARIABLE), force)
    of = f"build {done.build_id}, digest {done.digest}" if done.build_id else "it has no published build"
    call.text(f"home {done.home}: {counted(done.files, 'file')} restored and checked; {of}")
    if done.moved_aside:
        call.text(f"what was there before is in {done.moved_aside}")
    if done.needs_upgrade:
        call.text(f"an earlier version wrote this home; run palimpsest home upgrade --home {done.home}")
    call.result(done.to_json())


# The command `palimpsest housekeeping`: what a home no longer needs.


@click.command()
@common
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
def housekeeping(call: Call, dry_run: bool) -> None:
    """Remove closed logs, vectors of no kept build, old runs of Dagster and leftovers, by the settings' policies."""
    from palimpsest.pipeline.housekeeping import keep_house

    done = keep_house(call.home, dry_run)
    verb = "would remove" if dry_run else "removed"
    lines = [f"{verb} {r.items:,} {r.part}, {r.bytes / 2**20:,.1f} MiB" for r in done.removed]
    sizes = [f"{name:<14}{size / 2**20:>10,.1f} MiB" for name, size in sorted(done.sizes.items())]
    call.show("\n".join([*lines, f"{'left in':<14}", *sizes]), done.to_json())


# The command `palimpsest logs`: the events of a home, newest last.

_AGO = re.compile(r"(\d{1,6})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class SinceParam(click.ParamType[dt.datetime]):
    """A time: `30m`, `12h` or `7d` ago, a date or a date with a time, in UTC."""

    name = "WHEN"

    def convert(
        self, value: str | dt.datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> dt.datetime:
        """Returns the time; fails where it is none."""
        if isinstance(value, dt.datetime):
            return value
        if found := _AGO.fullmatch(value.strip()):
            return dt.datetime.now(dt.UTC) - dt.timedelta(**{_UNITS[found[2]]: int(found[1])})
        try:
            time = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            self.fail(f"{value[:40]!r} is no time; write 30m, 12h, 7d, 2026-03-01 or 2026-03-01T09:00", param, ctx)
        return time if time.tzinfo else time.replace(tzinfo=dt.UTC)


@click.command()
@common
@click.option("--since", type=SinceParam(), help="Since 30m, 12h or 7d ago, or since a date (UTC). [default: all]")
@click.option("--level", type=click.Choice(LEVELS), default="info", help="This level or a more serious one.")
@click.option("--run", "run_id", help="Only of this run: the word after run= in the output.")
@click.option("-n", "shown", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many, at most.")
def logs(call: Call, since: dt.datetime | None, level: Level, run_id: str | None, shown: int) -> None:
    """Show the last events of the home's log: no memory, no name of a user and no text is in it."""
    events = read_events(call.home_path, since, level, run_id)[-shown:]
    call.text("\n".join(map(_line, events)) or "no events; builds, deletes, the gate and the inbox write them")
    call.result({"events": [e.to_json() for e in events]})


def _line(event: Event) -> str:
    found = {"run": event.run_id, "build": event.build_id, **event.fields}
    fields = " ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in found.items() if v != "")
    return f"{event.time:%Y-%m-%d %H:%M:%S} {event.level:<7} {event.event} {fields}"


# The command `palimpsest delete`: its options, and the call of `build/delete`, which does the work.


@click.command()
@common
@click.option("--memory", "memories", multiple=True, help="This memory, by its id. [repeatable]")
@click.option("--document", help="A source, by its path inside the collection, or path#session.")
@click.option("--user", help="What belongs to this user.")
@click.option("--session", help="What belongs to this session.")
@click.option("--project", help="What belongs to this project.")
@click.option("--tag", help="Memories with this tag.")
@click.option(
    "--before",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    metavar="DATE",
    help="Memories observed before this date (UTC), such as 2026-03-01.",
)
@click.option("--collection", help="Only in this collection. Alone: the whole collection.")
@click.option("--dry-run", is_flag=True, help="List what would be deleted, and delete nothing.")
@click.option("--yes", is_flag=True, help="At a terminal: do not list and prompt first.")
def delete(
    call: Call,
    memories: tuple[str, ...],
    document: str | None,
    user: str | None,
    session: str | None,
    project: str | None,
    tag: str | None,
    before: dt.datetime | None,
    collection: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete what matches all options given, from every build and log, and prove that nothing of it is left.

    At a terminal it lists what would be deleted and prompts for confirmation first; in a script it does not.
    """
    from palimpsest.pipeline.deletion.delete import delete as delete_from

    run = partial(
        delete_from,
        call.home,
        memories=memories,
        document=document,
        user=user,
        session=session,
        project=project,
        tag=tag,
        before=before.replace(tzinfo=dt.UTC) if before else None,
        collection=collection,
    )
    if not (dry_run or yes) and sys.stdin.isatty():
        call.text(run(dry_run=True).text)
        confirm("Delete this for good?", yes=False)
    done = run(dry_run=dry_run)
    call.show(done.text, done.to_json())


# The commands `palimpsest export`, which writes all that is stored about a person, and `palimpsest import`.

_MAX_SHOWN = 20


@click.command()
@common
@click.option("--user", required=True, help="Whose.")
@click.option("--out", type=FOLDER, required=True, help="A new folder.")
@click.option("--collection", help="Only of this collection. [default: all]")
def export(call: Call, user: str, out: Path, collection: str | None) -> None:
    """Write all that is stored about a user: JSON with a schema, original files, Markdown that can be edited."""
    from palimpsest.export.export_user import export_user

    done = export_user(call.home, user, out, collection)
    for left in done.left_out[:_MAX_SHOWN]:
        call.text(f"original left out: {left['uri']} of {left['collection']}: {left['reason']}")
    pages, originals = done.counts["pages"], done.counts["originals"]
    call.text(
        f"exported {counted(done.counts['memories'], 'memory')} of "
        f"{counted(done.counts['documents'], 'document')} to {out}: {counted(pages, 'page')}, "
        f"{counted(originals, 'original file')}; it has everything, also what is hidden: keep it private"
    )
    call.result(done.to_json())


@click.command("import")
@common
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option(
    "--rename", "renames", multiple=True, metavar="OLD=NEW", help="Another name of a collection. [repeatable]"
)
@click.option("--allow-removals", is_flag=True, help="Apply the removal of more pages than max_removed allows.")
def import_(call: Call, folder: Path, renames: tuple[str, ...], allow_removals: bool) -> None:
    """Make collections of an export, or apply the edits of its pages where the home has them; then build."""
    from palimpsest.export.import_export import import_export

    done = import_export(call.home, folder, rename=dict(map(_parse_rename, renames)), allow_removals=allow_removals)
    made = f"made {', '.join(done.collections)} of {counted(done.documents, 'document')}; " if done.collections else ""
    more = f", {counted(done.decisions, 'decision')}" if done.decisions else ""
    more += f", {counted(done.operations, 'operation')} of the inbox" if done.operations else ""
    left = f", {len(done.problems)} left as they are" if done.problems else ""
    is_new = done.collections or done.edited or done.removed or done.operations
    edited = f"{counted(len(done.edited), 'page')} edited, {len(done.removed)} removed, {done.unchanged} unchanged"
    call.text(
        f"{made}{edited}{left}{more}" + ("; the next palimpsest build reads them" if is_new else "; nothing to build")
    )
    call.result(done.to_json())


def _parse_rename(text: str) -> tuple[str, str]:
    old, sign, new = text.partition("=")
    if not (old and sign and new):
        raise click.BadParameter(f"{text!r} must be OLD=NEW, such as diary=diary-2", param_hint="--rename")
    return old, new
