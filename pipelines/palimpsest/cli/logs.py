"""The command `palimpsest logs`: the events of a home, newest last."""

import datetime as dt
import re
from pathlib import Path

import click

from palimpsest.cli.shared import Output, common
from palimpsest.store.event_log import LEVELS, Event, Level, read_events

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


@click.command(short_help="Show what builds, deletes, the gate and the inbox did.")
@common
@click.option("--since", type=SinceParam(), help="Since 30m, 12h or 7d ago, or since a date (UTC). [default: all]")
@click.option("--level", type=click.Choice(LEVELS), default="info", help="This level or a more serious one.")
@click.option("--run", "run_id", help="Only of this run: the word after run= in the output.")
@click.option("-n", "shown", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many, at most.")
def logs(
    home_path: Path,
    as_json: bool,
    backend: str,
    since: dt.datetime | None,
    level: Level,
    run_id: str | None,
    shown: int,
) -> None:
    """Show the last events of the home's log: no memory, no name of a user and no text is in it."""
    out = Output(as_json)
    events = read_events(home_path, since, level, run_id)[-shown:]
    out.text("\n".join(map(_line, events)) or "no events; builds, deletes, the gate and the inbox write them")
    out.result({"events": [e.to_json() for e in events]})


def _line(event: Event) -> str:
    found = {"run": event.run_id, "build": event.build_id, **event.fields}
    fields = " ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in found.items() if v != "")
    return f"{event.time:%Y-%m-%d %H:%M:%S} {event.level:<7} {event.event} {fields}"
