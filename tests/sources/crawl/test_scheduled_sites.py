"""Entries of sources.yaml are crawled when they are due, each by itself."""

import datetime as dt
import re

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.sources.crawl.ingest_web import ingest_due, list_sites
from palimpsest.sources.discovery import source_files
from palimpsest.store.collection_config import load_collection
from palimpsest.store.web_pages import load_site_entries
from tests.command import last_json, run
from tests.small_corpus import write_notes
from tests.sources.crawl.local_site import html


def write(home, text: str) -> None:
    (home.sources["notes"] / "sources.yaml").write_text(text)


def later(days: float) -> dt.datetime:
    return dt.datetime.now(dt.UTC) + dt.timedelta(days=days)


def test_entries_are_crawled_once_their_time_has_come(home, site):
    site.pages |= {"/": html("Start.", "/a"), "/a": html("A."), "/once/": html("Once.")}
    write(
        home,
        f"web:\n- {{url: {site.url}, schedule: '0 2 * * *', depth: 1}}\n"
        f"- {{url: {site.url}once/, mode: ingest, user: ines}}\n",
    )
    first = ingest_due(home)
    assert [len(crawl.stored) for crawl in first.crawls] == [2, 1] and not first.failures
    again = ingest_due(home)
    assert not again.crawls and ["is due at" in why or "crawled at" in why for _, why in again.skipped] == [True, True]
    site.pages["/a"] = html("A is new.")
    assert [len(c.stored) for c in ingest_due(home, now=later(1.1)).crawls] == [1]
    assert len(ingest_due(home, all_entries=True).crawls) == 1  # what is read once is not read again
    assert [s.entry.depth for s in list_sites(home)] == [1, 5]


def test_an_entry_that_fails_or_has_a_bad_url_does_not_stop_the_others(home, site):
    site.pages["/ok/"] = html("Ok.")
    write(home, f"web:\n- url: {site.url}bad/\n- url: {site.url}ok/\n- url: http://10.0.0.1/\n")
    done = ingest_due(home)
    assert len(done.crawls) == 1 and len(done.failures) == 2 and done.number == 3
    assert done.to_json()["stored"] == 1
    site.pages["/"] = html("Ok.")
    write(home, f"web:\n- url: {site.url}\n- url: example.org/docs\n- url: {site.url}b/\n")
    done = ingest_due(home)
    assert len(done.crawls) == 1 and "web.1.url: is no URL of http or https" in done.failures[0][1] and done.number == 3


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ("web: [{url: 'https://[bad/'}]", r"web\.0\.url: is no URL; write one such as"),
        ("web: [{url: 'ftp://files.example/'}]", r"web\.0\.url: is no URL of http or https"),
        ("web: [{url: 'https://ines:zqkey@docs.example/'}]", r"web\.0\.url: names a user or a password"),
        ("web: [{url: 'https://a.example/', depth: -1}]", r"web\.0\.depth: .*greater than or equal to 0"),
        ("web: [", "not valid YAML"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_and_those_of_other_collections_go_on(home, site, broken, problem):
    site.pages["/"] = html("Ok.")
    other = write_notes(home.path.parent / "more", {}, "articles") / "articles"
    home.remember_sources({"articles": other})
    write(home, f"web: [{{url: {site.url}}}]\n")
    path = other / "sources.yaml"
    path.write_text(broken)
    done = run("ingest", "sites", "--home", home.path, "--json")
    assert done.returncode == 3 and done.stderr.count("articles: ") == 1
    result = last_json(done)
    assert result["stored"] == 1 and len(result["failures"]) == 1
    (failure,) = result["failures"]
    line = f"{failure['entry']}: {failure['reason']}"
    assert re.match(rf"articles: sources\.yaml: {problem}.* \({re.escape(str(path))}\)$", line), line
    assert "\n" not in line and "zqkey" not in line
    with pytest.raises(PalimpsestError, match=problem):
        list(list_sites(home))


def test_entries_without_a_schedule_wait_for_a_person_and_sources_yaml_is_no_source(home, site):
    site.pages["/"] = html("Start.")
    write(home, f"web: [{{url: {site.url}}}]\n")
    assert not ingest_due(home, scheduled_only=True).crawls and len(ingest_due(home).crawls) == 1
    write(home, "web: []\n")
    folder = home.sources["notes"]
    assert list(source_files(folder, load_collection(folder))) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("web: [{url: 'https://a.example/', schedule: tomorrow}]", r"web\.0\.schedule.*cron expression"),
        ("web: [{url: 'https://a.example/', deep: 3}]", r"web\.0\.deep.*fields are url, schedule"),
        ("web: [{depth: 3}]", r"web\.0\.url"),
        ("web: [{url: 'https://a.example/', mode: delete}]", r"web\.0\.mode"),
        ("- https://a.example/", "must be a mapping"),
        ("web: [", "not valid YAML"),
        ("web: [{url: 'https://a.example/'}, {url: 'https://a.example/'}]", "given twice"),
    ],
)
def test_a_mistake_names_file_and_field(home, text, problem):
    write(home, text)
    with pytest.raises(PalimpsestError, match=rf"sources\.yaml: .*{problem}|sources\.yaml: {problem}"):
        load_site_entries(home.sources["notes"])
