"""The commands `palimpsest backup` and `palimpsest restore`."""

from pathlib import Path

import click

from palimpsest.cli.shared import FOLDER, Output, common
from palimpsest.core.errors import PalimpsestError
from palimpsest.store.backup.cipher import PASSWORD_VARIABLE, read_password
from palimpsest.store.home import Home


@click.command(short_help="Write a home into one file, while builds go on.")
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
def backup(
    home_path: Path,
    as_json: bool,
    backend: str,
    file: Path,
    keep: int | None,
    encrypt: bool,
    password_file: Path | None,
) -> None:
    """Write a consistent copy of the home into FILE: the record, the published build and its index.

    With --keep N, FILE is a folder of dated backups, of which the newest N of this home stay.
    """  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.build.backup import backup_home
    from palimpsest.build.backup_series import backup_dated

    password = read_password(password_file, PASSWORD_VARIABLE) if encrypt or password_file else None
    if encrypt and password is None:
        raise PalimpsestError(f"--encrypt: no password; set {PASSWORD_VARIABLE}, or name a file with --password-file")
    out = Output(as_json)
    series = backup_dated(Home(home_path), file, keep, password) if keep else None
    done = series.backup if series else backup_home(Home(home_path), file, password)
    sealed = "encrypted" if done.encrypted else "not encrypted"
    of = f"build {done.build_id}, digest {done.digest}" if done.build_id else "no build is published"
    out.text(f"{done.file}: {done.files:,} files, {done.bytes >> 20:,} MiB, {sealed}; {of}")
    for removed in series.removed if series else ():
        out.text(f"removed {removed}")
    out.result((series or done).to_json())


@click.command(short_help="Restore a home from a backup.")
@common
@click.argument("file", type=FOLDER)
@click.option("--password-file", type=FOLDER, help="File with the password. [default: $PALIMPSEST_BACKUP_PASSWORD]")
@click.option("--force", is_flag=True, help="Move a home that is there aside; it stays as HOME.before-restore-N.")
def restore(home_path: Path, as_json: bool, backend: str, file: Path, password_file: Path | None, force: bool) -> None:
    """Restore the home that FILE is a backup of, and check every file and the digest of its build."""  # noqa: DOC501 (the docstring is the help text)
    from palimpsest.build.backup import restore_home
    from palimpsest.instances.background import BUILDS, SERVICE
    from palimpsest.instances.process_record import read_record

    out = Output(as_json)
    records = {c.name: read_record(home_path, c.name) for c in (SERVICE, BUILDS)}
    if running := [name for name, record in records.items() if record and record.is_running]:
        raise PalimpsestError(f"home {home_path}: its {running[0]} runs; stop it with palimpsest service stop first")
    done = restore_home(file, Home(home_path), read_password(password_file, PASSWORD_VARIABLE), force)
    of = f"build {done.build_id}, digest {done.digest}" if done.build_id else "it has no published build"
    out.text(f"home {done.home}: {done.files:,} files restored and checked; {of}")
    if done.moved_aside:
        out.text(f"what was there before is in {done.moved_aside}")
    if done.needs_upgrade:
        out.text(f"an earlier version wrote this home; run palimpsest home upgrade --home {done.home}")
    out.result(done.to_json())
