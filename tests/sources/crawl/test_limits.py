"""Sitemaps, links and headers of a site that has no end: what a crawl reads and remembers of it is bounded."""

import gzip

import pytest

from palimpsest.sources.crawl import CrawlOptions, ingest_site, read_page, sitemaps
from palimpsest.sources.crawl.address_guard import AddressPolicy
from palimpsest.sources.crawl.crawl_site import CrawlResult, Frontier, Visit
from palimpsest.sources.crawl.fetch import Fetcher
from palimpsest.sources.crawl.robots import Robots
from palimpsest.sources.crawl.sitemaps import SitemapPages, find_sitemaps
from palimpsest.sources.crawl.urls import SiteScope
from tests.pathological_text.patterns import FoundPattern
from tests.pathological_text.texts import SlowText
from tests.pathological_text.timings import Worker
from tests.sources.crawl.local_site import LocalSite, Page, html, sitemap, sitemap_index


def read_sitemaps(site: LocalSite, max_bytes: int = sitemaps.MAX_BYTES) -> SitemapPages:
    with Fetcher(AddressPolicy.from_environment()) as fetcher:
        return find_sitemaps(fetcher, site.url, Robots(), SiteScope(site.url).contains, max_bytes)


def test_indexes_of_indexes_end_at_a_depth(site):
    site.answer = lambda path: sitemap_index(site.page(f"{path.removesuffix('.xml')}-.xml"))
    found = read_sitemaps(site)
    assert len(found.sitemaps) == 4 and not found.is_whole and "more than 3 levels" in found.problems[0][1]
    assert len(site.requests) == 4


def test_sitemaps_of_a_large_site_are_read_to_their_limits_and_no_more(site, monkeypatch):
    monkeypatch.setattr(sitemaps, "MAX_SITEMAPS", 5)
    site.pages["/sitemap.xml"] = sitemap_index(*(site.page(f"/{n}.xml") for n in range(9)))
    site.answer = lambda path: sitemap(site.page(path.removesuffix(".xml")))
    found = read_sitemaps(site)
    assert len(found.sitemaps) == 5 and len(found.urls) == 4 and not found.is_whole
    assert len(site.requests) == 5 and found.problems == ((site.page("/4.xml"), "more than 5 sitemaps"),)
    site.requests.clear()
    monkeypatch.setattr(sitemaps, "MAX_URLS", 20)
    site.pages["/sitemap.xml"] = sitemap_index(*(site.page(f"/{n}.xml") for n in range(9)))
    site.answer = lambda path: sitemap(*(site.page(f"{path.removesuffix('.xml')}/{n}") for n in range(15)))
    found = read_sitemaps(site)
    assert len(found.urls) == 20 and len(site.requests) == 3 and not found.is_whole and len(found.problems) == 1


@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}])
def test_a_packed_sitemap_is_unpacked_to_its_limit(site, headers):
    page = sitemap(*(site.page(f"/{n}") for n in range(2_000)))
    bomb = Page(gzip.compress(page.body), page.content_type, headers=headers)
    site.pages |= {"/sitemap.xml": bomb, "/": html("Start.")}
    assert len(read_sitemaps(site).urls) == 2_000
    cut = read_sitemaps(site, max_bytes=20_000)
    assert cut.urls == () and "larger than 20,000 bytes" in cut.problems[0][1] and not cut.is_whole


def test_a_sitemap_with_more_pages_than_the_protocol_allows_is_read_to_there(site, monkeypatch):
    monkeypatch.setattr(sitemaps, "MAX_PER_FILE", 50)
    site.pages["/sitemap.xml"] = sitemap(*(site.page(f"/{n}") for n in range(80)))
    found = read_sitemaps(site)
    assert len(found.urls) == 51 and "more than 50 URLs" in found.problems[0][1]
    monkeypatch.setattr(sitemaps, "MAX_URLS", 20)
    found = read_sitemaps(site)
    assert len(found.urls) == 20 and any("more than 20 pages" in why for _, why in found.problems)


def test_urls_beyond_those_that_are_remembered_are_counted_and_elements_without_a_page_not_kept(monkeypatch):
    monkeypatch.setattr(sitemaps, "_MAX_ELEMENTS", 100)
    few, many = (b"<urlset>" + b"<image/>" * n + b"</urlset>" for n in (90, 110))
    assert sitemaps.parse_sitemap(few, "https://example.org/sitemap.xml") == ([], [])
    with pytest.raises(sitemaps._NoSitemap, match="too many elements"):
        sitemaps.parse_sitemap(many, "https://example.org/sitemap.xml")
    monkeypatch.setattr("palimpsest.sources.crawl.crawl_site.MAX_SEEN", 10)
    start = "https://example.org/"
    result = CrawlResult("notes", "0", start)
    frontier = Frontier(SiteScope(start), result)
    frontier.push(Visit(1, f"{start}{n}") for n in range(25))
    assert len(frontier) == len(frontier.seen) == 10 and result.counts["not_fetched"] == 15 and not result.is_complete
    frontier.push([Visit(2, f"{start}3"), Visit(2, "https://elsewhere.example/")])
    assert result.counts["not_fetched"] == 15, "a URL that is known, or of another site, is none of those left out"


def test_a_crawl_of_a_site_without_an_end_remembers_so_many_urls(home, site, monkeypatch):
    monkeypatch.setattr("palimpsest.sources.crawl.crawl_site.MAX_SEEN", 30)
    site.answer = lambda path: html(f"Page {path}.", *(f"{path.rstrip('/')}/{n}" for n in range(8)))
    done = ingest_site(home, site.url, CrawlOptions(max_pages=10))
    assert done.counts["fetched"] == 10 and not done.is_complete
    assert done.counts["not_fetched"] == 20 + (80 - 29)


def test_a_refresh_of_any_length_is_read_in_linear_time():
    pattern = read_page._REFRESH
    texts = [SlowText("", unit, "x") for unit in (" ", "0", ".", "\t ", "0;url =")]
    found = FoundPattern("read_page", pattern.pattern, pattern.flags, False, "re", ("match",))
    with Worker(10) as worker:
        assert float("inf") not in worker.seconds(found, "match", texts, 20_000)
    assert pattern.match(" 5 ; url = '/next'")[1] == "/next"


def test_a_page_that_takes_too_long_or_too_much_memory_is_a_failure_and_the_crawl_goes_on(home, site, monkeypatch):
    monkeypatch.setattr("palimpsest.sources.crawl.read_page.MAX_SECONDS", 0.5)
    tables = b"<table><tr><td>" * 80 + b"<p>x</p>" * 120_000  # each table looks through all that is below it
    memory = "limits: {max_memory_bytes: 700000000}\n"
    settings = home.sources["notes"] / "collection.yaml"
    settings.write_text(settings.read_text() + memory)
    site.pages |= {
        "/": html("Start.", "/a-slow", "/b-large", "/c"),
        "/a-slow": Page(tables),
        "/b-large": Page(b"<b>" * 1_600_000),
        "/c": html("The crane is green."),
    }
    done = ingest_site(home, site.url)
    assert sorted(done.stored) == [site.url, site.page("/c")] and done.counts["failed"] == 2
    why = dict(done.failures)
    assert "took longer than 0.5 seconds" in why[site.page("/a-slow")], why
    assert done.is_final
