"""The health of a home: numbers that can be counted by hand, their history, the page and the asset."""

import datetime as dt
import json
from collections import Counter

import polars as pl
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.pipeline.deletion.delete import delete
from palimpsest.store.home import Home
from palimpsest.store.proposals import STATES
from palimpsest_eval.report.health_page import (
    BuildNumbers,
    ages,
    confidence,
    format_number,
    health_html,
    home_health,
    read_history,
    record,
)
from palimpsest_eval.runs.home_metrics import health_of, record_health
from tests.command import last_json, process
from tests.eval.home import at, tables

NOW = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)


def build(number, **numbers):
    return BuildNumbers(f"{number:06d}", "2024-03-01T00:00:00+00:00", {"latest": 5.0, **numbers}, {"chunks": 1.5})


def evident():
    t = tables()
    return t | {"relations": t["relations"].with_columns(evidence=pl.lit("{}"))}


def health(t=None, builds=None, reads=None, proposals=None):
    return home_health(t or evident(), ["notes"], builds or (build(1),), reads or {}, proposals or {}, "passed", NOW)


def test_the_hand_made_build_is_counted():
    found = health()
    assert (found.total["latest"], found.total["retired"]) == (5, 1)
    assert found.growth == (("2024-01", 4), ("2024-02", 2))
    assert found.orphans == {"without_topic": 4, "without_entity": 4, "without_relation": 2, "nodes_without_edge": 0}
    rows = tables()["memories"].select("user_id", "text").iter_rows()
    size = Counter[str]()
    for user, text in rows:
        size[user] += len(text.encode())
    assert [(s.user_id, s.memories, s.latest, s.text_bytes) for s in found.sizes] == [
        ("ana", 4, 3, size["ana"]),
        ("ben", 2, 2, size["ben"]),
    ]
    assert (found.users, found.text_bytes) == (2, size.total())
    assert found.confidence["relations"].mean == 0.9 and found.confidence["relations"].bins[9] == 2


def test_use_open_proposals_ages_and_confidences_are_counted():
    old, new = at("2024-01-15").timestamp(), at("2024-02-28").timestamp()
    found = health(reads={"m3": (4, int(new)), "m4": (2, int(old)), "gone": (9, int(new)), "m1": (1, int(new))})
    assert (found.use.reads, found.use.used, found.use.used_share) == (6, 1, 0.2)
    assert found.numbers["used_share"] == 0.2
    found = health(proposals={"prune": {"open": 2, "accepted": 1}, "note": {"open": 1}})
    assert found.numbers["proposals_open"] == 3
    assert '<td>prune</td><td class="n">2</td>' in health_html(found)
    days = [0.5, 1.0, 5.0, 29.0, 100.0, 4000.0, -3.0]
    times = pl.Series([NOW - dt.timedelta(days=d) for d in days] + [None])
    found = ages(times, NOW)
    assert dict(found.groups) == {"day": 3, "week": 1, "month": 1, "quarter": 0, "year": 1, "older": 1}
    assert (found.undated, found.median_days) == (1, 5.0)
    assert ages(pl.Series([], dtype=pl.Datetime("us", "UTC")), NOW).median_days is None
    assert confidence(pl.Series([0.0, 0.05, 0.1, 1.0, None])).bins == (2, 1, 0, 0, 0, 0, 0, 0, 0, 1)
    assert confidence(pl.Series([], dtype=pl.Float64)).mean is None


def test_history_survives_its_builds_and_damage(tmp_path):
    home = Home(tmp_path / "home")
    home.create()
    for number in (2, 1, 2):
        record(home, build(number, memories=float(number)))
    path = home.path / "health/history.jsonl"
    path.write_text(path.read_text() + '{"build_id": \n')
    assert [(r.build_id, r.numbers["memories"]) for r in read_history(home)] == [("000001", 1.0), ("000002", 2.0)]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (1234, "count", "1,234"), (0.5, "share", "0.500"), (2048, "bytes", "2.0 KiB"), (3 * 2**30, "bytes", "3.0 GiB"),
        (None, "share", "-"),
    ],
)  # fmt: skip
def test_numbers_are_written_with_their_unit(value, form, text):
    assert format_number(value, form) == text


def test_the_page_escapes_names_shows_changes_and_pictures():
    t = evident()
    t["memories"] = t["memories"].with_columns(user_id=pl.lit("<b>ana</b>"))
    page = health_html(health(t, (build(1, latest=3.0), build(2))))
    assert "&lt;b&gt;ana" in page and "<b>ana" not in page
    assert '+2 <span class="soft">since the last build' in page and "<script" not in page
    assert "Memories by month of their date" in page and page.count("<svg") >= 3


def test_the_command_and_the_page_show_a_home(judged_home, tmp_path):
    page = tmp_path / "health.html"
    done = process("health", "--home", judged_home.path, "--report", page, "--json")
    assert done.returncode == 0, done.stderr
    found = last_json(done)
    assert found["numbers"]["latest"] == 4 and found["builds"][-1]["build_id"] == "000001"
    assert found["proposals"]["note"] == dict.fromkeys(STATES, 0)
    assert "Memory health" in page.read_text()


def test_a_home_without_a_build_is_an_error(tmp_path):
    with pytest.raises(PalimpsestError, match="no published build"):
        health_of(Home(tmp_path))


def test_a_record_has_numbers_and_no_name_and_a_delete_removes_the_page_that_names_users(copied_home):
    found = record_health(copied_home)
    line = (copied_home.path / "health/history.jsonl").read_text()
    assert json.loads(line)["numbers"] == found.numbers
    assert "ann" not in line and "chats" not in line
    page = copied_home.path / "health/report.html"
    assert "bob" in page.read_text()
    delete(Home(copied_home.path), user="bob")
    assert not page.exists() and [row.build_id for row in read_history(copied_home)] == ["000001"]


def test_the_asset_has_the_numbers_as_metadata_and_writes_the_page(copied_home):
    import dagster as dg

    from palimpsest.orchestration.published_assets import memory_health
    from palimpsest.orchestration.resources import HomeResource

    resources = {"home": HomeResource(path=str(copied_home.path), embeddings_path=str(copied_home.embeddings))}
    done = dg.materialize([memory_health], resources=resources, selection=[memory_health])
    (event,) = done.asset_materializations_for_node("memory_health")
    numbers = health_of(copied_home).numbers
    shown = {name: value.value for name, value in event.metadata.items()}
    figures = {n: v for n, v in shown.items() if n in numbers and "age" not in n}
    assert len(shown) <= 8 and len(figures) >= 3 and figures == {n: numbers[n] for n in figures}
    assert numbers["latest"] == 4.0
    assert (copied_home.path / "health/report.html").is_file()
