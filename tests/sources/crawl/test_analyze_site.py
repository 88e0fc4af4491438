"""A site is analyzed within fixed limits: its pages by the pattern of their paths, and what to do next."""

import time

import pytest

from palimpsest.core.errors import ArgumentError, ComponentFailed
from palimpsest.sources.crawl.analyze_site import analyze_site, group_paths
from tests.sources.crawl.local_site import Page, html, serve, sitemap


def test_pages_of_a_sitemap_are_grouped_without_being_fetched(site):
    urls = [f"/docs/{n}" for n in range(200)] + [f"/blog/2026/{n}" for n in range(100)]
    site.pages |= {"/": html("Start."), "/sitemap.xml": sitemap(*map(site.page, urls))}
    found = analyze_site(site.url)
    assert (found.grouped, found.listed, found.source) == (150, 300, "sitemap") and site.paths == []
    assert [(g.pattern, g.count) for g in found.groups] == [("/docs/*", 150)]
    assert any("analyze subsections" in line and site.page("/docs/") in line for line in found.advice)


@pytest.mark.parametrize(("urls", "pages"), [(("/", "/a", "/b"), 3), (("/a", "/b"), 3)])
def test_the_advised_number_of_pages_reads_all_of_a_site(site, urls, pages):
    site.pages |= {"/sitemap.xml": sitemap(*map(site.page, urls))}
    assert f"--max-pages {pages} reads all of it." in analyze_site(site.url).advice[-1]


def test_links_are_followed_where_there_is_no_sitemap_and_robots_rules_hold(site):
    site.pages |= {
        "/robots.txt": Page(b"User-agent: *\nDisallow: /private\n", "text/plain"),
        "/": html("Start.", "/a/1", "/a/2", "/private/x", "https://elsewhere.example/"),
        "/a/1": html("One.", "/a/3"),
    }
    site.answer = lambda path: html(path) if path.startswith("/a/") else None
    found = analyze_site(site.url)
    assert found.source == "links" and found.refused == 1
    assert {(g.pattern, g.count) for g in found.groups} == {("/", 1), ("/a/*", 3)}
    assert f"palimpsest ingest site {site.url} --max-pages 4 reads all of it." in found.advice
    assert "/private/x" not in site.paths


def test_common_crawl_is_asked_where_a_person_wants_it_and_no_sitemap_lists_pages(site, monkeypatch):
    with serve({"/collinfo.json": Page(b'[{"id": "CC-1", "cdx-api": "/CC-1-index"}]', "application/json")}) as archive:
        lines = [site.page(f"/docs/{n}") for n in range(3)] + ["https://elsewhere.example/x", site.page("/docs/1#a")]
        rows = "".join(f'{{"url": "{url}"}}\n' for url in lines)
        archive.answer = lambda path: Page(rows.encode(), "text/plain") if path.startswith("/CC-1-index?url=") else None
        monkeypatch.setenv("PALIMPSEST_COMMON_CRAWL_URL", archive.url)
        site.pages["/"] = html("Start.", "/linked")
        assert analyze_site(site.url).source == "links" and archive.requests == []
        found = analyze_site(site.url, common_crawl=True)
        assert (found.source, found.grouped, found.groups[0].pattern) == ("common_crawl", 3, "/docs/*")
        archive.pages.clear()
        found = analyze_site(site.url, common_crawl=True)
        assert found.source == "links" and "Common Crawl" in found.problems[0][1]


def test_the_analysis_ends_with_its_time_and_advises_subsections(site):
    slow = Page(b"<a href='/z'>z</a>" * 200, drip_s=0.05)
    site.pages["/"] = html("Start.", "/docs/a", "/docs/b", "/docs/c")
    site.answer = lambda path: slow if path.startswith("/docs/") else None
    started = time.monotonic()
    found = analyze_site(site.url, seconds=1)
    assert time.monotonic() - started < 10 and found.is_timed_out  # 30 s without the limit
    assert found.advice[0].startswith("The time ended")


def test_what_cannot_be_analyzed_is_an_error_in_one_line(site):
    with pytest.raises(ComponentFailed, match="status 404"):
        analyze_site(site.url)
    for options in ({"seconds": 51}, {"max_urls": 151}, {"seconds": 0}):
        with pytest.raises(ArgumentError):
            analyze_site(site.url, **options)


def test_many_patterns_become_few_groups_and_no_more_pages_are_grouped_than_given(site):
    urls = [f"https://example.org/s{n}/t{n}/page" for n in range(60)] + ["https://example.org/"]
    groups = group_paths(urls)
    assert [(g.pattern, g.count) for g in groups] == [("/*", 60), ("/", 1)]
    numbered = group_paths([f"https://example.org/{year}/0{n}/x" for year in (2025, 2026) for n in range(3)])
    assert [(g.pattern, g.count) for g in numbered] == [("/{n}/{n}/*", 6)]
    site.answer = lambda path: html(path, f"{path}x", f"{path}y") if path != "/robots.txt" else None
    found = analyze_site(site.url, max_urls=5)
    assert found.grouped == 5 < found.listed and "more pages than are grouped" in found.advice[0]
