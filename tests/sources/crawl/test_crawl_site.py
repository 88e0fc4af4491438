"""A site is read page by page: what is stored, what is left out and why, and what a second crawl does."""

import json
import stat
from pathlib import Path

import pytest
from protego import Protego

from palimpsest.core.errors import ArgumentError, ComponentFailed, PalimpsestError
from palimpsest.sources.crawl import CrawlOptions, CrawlResult, ingest_site, ingest_url
from palimpsest.sources.crawl.address_guard import AddressPolicy
from palimpsest.sources.crawl.ingest_web import own_delay_s
from palimpsest.sources.crawl.robots import MAX_DELAY_S, Robots
from palimpsest.store.decisions import append_decisions, tombstone
from palimpsest.store.home import Home
from palimpsest.store.web_pages import sweep_pages, web_pages
from tests.sources.crawl.local_site import LocalSite, Page, html, redirect, sitemap, sitemap_index


def crawl(home: Home, site: LocalSite, path: str = "/", **options: object) -> CrawlResult:
    return ingest_site(home, site.page(path), CrawlOptions(**options))  # type: ignore[arg-type]


def paths(home: Home, site: LocalSite) -> list[str]:
    """Returns the paths of the pages that the home has."""
    return sorted("/" + page.record.uri.removeprefix(site.url) for page in web_pages(home.web, "notes"))


def counts(result: CrawlResult) -> dict[str, int]:
    return {name: n for name, n in result.counts.items() if n}


def test_links_are_followed_to_a_depth_within_the_site(home, site):
    site.pages |= {
        "/docs/": html("Start of the manual.", "a.html", "/blog/x.html", "https://elsewhere.example/", "mailto:a@b.c"),
        "/docs/a.html": html("The pump.", "b.html#part"),
        "/docs/b.html": html("The valve.", "c.html"),
        "/docs/c.html": html("The gauge."),
        "/blog/x.html": html("News."),
    }
    done = crawl(home, site, "/docs/", depth=2)
    assert paths(home, site) == ["/docs/", "/docs/a.html", "/docs/b.html"]
    assert counts(done) == {"fetched": 3, "new": 3} and len(done.stored) == 3
    assert site.paths.count("/docs/a.html") == 1 and "/blog/x.html" not in site.paths


def test_no_more_pages_are_fetched_than_allowed_also_of_a_site_without_end(home, site):
    site.pages["/"] = html("Start.", *(f"/p{n}" for n in range(9)))
    site.answer = lambda path: html(f"Page {path}.")
    done = crawl(home, site, max_pages=4)
    assert counts(done) == {"fetched": 4, "new": 4, "not_fetched": 6} and not done.is_complete
    assert paths(home, site) == ["/", "/p0", "/p1", "/p2"]
    site.answer = lambda path: html(f"Day {path}.", f"{path.rstrip('/')}/next") if "robots" not in path else None
    before = len(site.paths)
    done = crawl(home, site, depth=50, max_pages=20)
    assert done.counts["fetched"] == 20 and len(site.paths) - before < 25


def test_include_and_exclude_take_paths_and_whole_urls(home, site):
    names = ("/guide/a", "/guide/old/b", "/guide/c?print=1", "/other")
    site.pages["/"] = html("Start.", *names)
    site.answer = lambda path: html(f"Page {path}.") if path in names else None
    done = crawl(home, site, include=("/guide/*",), exclude=("/guide/old/*", f"{site.url}*?print=*"))
    assert paths(home, site) == ["/guide/a"]
    assert counts(done) == {"fetched": 2, "new": 1, "excluded": 4}  # the start is read for its links alone


def test_robots_rules_of_the_server_and_of_the_page_are_obeyed(home, site):
    site.pages |= {
        "/robots.txt": Page(b"User-agent: palimpsest\nDisallow: /secret\nUser-agent: *\nDisallow: /\n", "text/plain"),
        "/": html("Start.", "/secret/a", "/noindex", "/header", "/plain"),
        "/noindex": html("Not this.", "/behind", head='<meta name="robots" content="noindex, nofollow">'),
        "/header": Page(html("Nor this.").body, headers={"X-Robots-Tag": "otherbot: nofollow, palimpsest: noindex"}),
        "/plain": html("This.", head='<meta name="robots" content="max-snippet:50">'),
        "/behind": html("Behind."),
    }
    done = crawl(home, site)
    assert paths(home, site) == ["/", "/plain"] and done.counts["robots"] == 3
    assert "/secret/a" not in site.paths and "/behind" not in site.paths


def test_a_site_that_robots_txt_forbids_or_hides_is_not_read(home, site):
    site.pages |= {"/": html("Start."), "/robots.txt": Page(b"User-agent: *\nDisallow: /\n", "text/plain")}
    with pytest.raises(PalimpsestError, match=r"robots\.txt of its server does not allow"):
        crawl(home, site)
    site.pages["/robots.txt"] = Page(b"", status=500)
    with pytest.raises(ComponentFailed, match=r"robots\.txt cannot be read: status 500"):
        crawl(home, site)
    assert paths(home, site) == [] and site.paths == []


def test_a_sitemap_at_the_url_or_at_the_root_lists_the_pages(home, site):
    page = html("Start.", "/docs/linked")
    site.pages |= {"/docs/": page, "/docs/a": html("A."), "/docs/b": html("B."), "/docs/linked": html("Linked.")}
    site.pages["/docs/sitemap.xml"] = sitemap(site.page("/docs/a"), site.page("/blog/b"))
    site.pages["/sitemap.xml"] = sitemap(site.page("/docs/b"), "https://elsewhere.example/docs/c")
    done = crawl(home, site, "/docs/")
    assert paths(home, site) == ["/docs/", "/docs/a", "/docs/b"]
    assert done.sitemaps == (site.page("/docs/sitemap.xml"), site.page("/sitemap.xml"))
    assert crawl(home, site, "/docs/", follow_links=True).counts["new"] == 1


def test_robots_txt_names_an_index_of_sitemaps_some_of_them_packed(home, site):
    import gzip

    packed = Page(gzip.compress(sitemap(site.page("/b")).body), "application/gzip")
    site.pages |= {
        "/robots.txt": Page(f"User-agent: *\nAllow: /\nSitemap: {site.page('/index.xml')}\n".encode(), "text/plain"),
        "/index.xml": sitemap_index(site.page("/one.xml"), site.page("/two.xml.gz"), site.page("/index.xml")),
        "/one.xml": sitemap(site.page("/a")),
        "/two.xml.gz": packed,
        "/": html("Start."),
        "/a": html("A."),
        "/b": html("B."),
    }
    assert crawl(home, site).counts["new"] == 3 and paths(home, site) == ["/", "/a", "/b"]


def test_a_second_crawl_asks_for_what_changed_and_stores_nothing_else(home, site):
    site.pages |= {
        "/": html("Start.", "/tagged", "/dated", "/plain"),
        "/tagged": html("Tagged.", "/behind"),
        "/dated": html("Dated."),
        "/plain": html("Plain."),
        "/behind": html("Behind."),
    }
    site.pages["/tagged"].has_etag, site.pages["/dated"].last_modified = True, "Wed, 21 Oct 2026 07:28:00 GMT"
    assert crawl(home, site).counts["new"] == 5
    before = {path: path.stat().st_mtime_ns for path in (home.web / "notes").glob("*-*")}
    site.requests.clear()
    done = crawl(home, site)
    assert counts(done) == {"fetched": 5, "unchanged": 5} and done.stored == []
    assert {path: path.stat().st_mtime_ns for path in (home.web / "notes").glob("*-*")} == before
    sent = dict(site.requests)
    assert "If-None-Match" in sent["/tagged"] and "If-Modified-Since" in sent["/dated"]
    site.pages["/plain"] = html("Plain no more.")
    assert crawl(home, site).stored == [site.page("/plain")]


def test_requests_share_a_connection_whatever_they_are_answered(home, site):
    site.pages["/"] = html("Start.", "/gone", "/old", *(f"/p{n}" for n in range(8)))
    site.answer = lambda path: html(f"Page {path}.") if path.startswith("/p") else None
    site.pages["/old"] = redirect("/p1")
    crawl(home, site)
    for page in site.pages.values():
        page.has_etag = True
    site.connections.clear()
    assert crawl(home, site).counts["unchanged"] == 9
    assert len(site.connections) == 2  # the first look at the start does not read its page


def test_new_links_around_the_same_text_are_followed_though_the_text_is_no_new_version(home, site):
    site.pages["/"] = html("The text.", head="<script>var nonce = 1</script>")
    crawl(home, site)
    site.pages["/"] = html("The text.", head="<script>var nonce = 2</script>")
    assert counts(crawl(home, site)) == {"fetched": 1, "unchanged": 1}
    site.pages |= {"/": html("Start.", "/a"), "/a": html("A."), "/b": html("B.")}
    site.pages["/"].has_etag = True
    crawl(home, site)
    site.pages["/"] = html("Start.", "/a", "/b")
    site.pages["/"].has_etag = True
    assert crawl(home, site).stored == [site.page("/b")]
    for _ in range(2):
        assert crawl(home, site).counts["gone"] == 0 and paths(home, site) == ["/", "/a", "/b"]


def test_pages_that_are_gone_retire_and_failures_keep_what_is_known(home, site):
    site.pages |= {"/": html("Start.", "/a", "/b"), "/a": html("A.", "/c"), "/b": html("B."), "/c": html("C.")}
    crawl(home, site)
    site.pages["/a"] = Page(b"", status=503, headers={"Retry-After": "9999"})
    del site.pages["/b"]
    done = crawl(home, site)
    assert paths(home, site) == ["/", "/a", "/c"] and done.counts["gone"] == 1 and not done.is_complete
    site.pages["/a"] = html("A.")
    done = crawl(home, site)  # nothing links to /c any more
    assert paths(home, site) == ["/", "/a"] and done.counts["gone"] == 1 and done.is_complete


def test_a_crawl_that_follows_links_less_far_keeps_pages_that_the_server_still_has(home, site):
    site.pages |= {"/": html("Start.", "/a"), "/a": html("A.", "/b"), "/b": html("B."), "/c": html("C.")}
    crawl(home, site, depth=5)
    assert crawl(home, site, depth=1).counts["gone"] == 0 and paths(home, site) == ["/", "/a", "/b"]


def test_a_site_that_answers_nothing_retires_nothing(home, site):
    site.pages |= {"/": html("Start.", "/a"), "/a": html("A.")}
    crawl(home, site)
    site.pages.clear()
    site.answer = lambda path: None if path == "/robots.txt" else Page(b"", status=502)
    with pytest.raises(ComponentFailed, match="status 502"):
        crawl(home, site)
    assert paths(home, site) == ["/", "/a"]


def test_pages_of_one_text_are_stored_once(home, site):
    site.pages |= {
        "/": html("Start.", "/a?PHPSESSID=12", "/a?PHPSESSID=77&utm_source=x", "/copy", "/b;jsessionid=9"),
        "/a": html("The pump."),
        "/copy": html("The pump."),
        "/b": html("The valve."),
    }
    done = crawl(home, site)
    assert paths(home, site) == ["/", "/a", "/b"] and done.counts["duplicates"] == 1


def test_a_page_is_known_by_its_canonical_url_on_its_own_host_alone(home, site):
    def page(text: str, canonical: str) -> Page:
        return html(text, head=f'<link rel="canonical" href="{canonical}">')

    site.pages |= {
        "/": html("Start.", "/print", "/stolen", "/lost", "/lost2", "/x"),
        "/lost2": page("The second gauge.", "/nowhere"),
        "/print": page("The pump, to print.", "/pump"),
        "/pump": page("The pump.", "/pump"),
        "/stolen": page("The valve.", "https://elsewhere.example/valve"),
        "/lost": page("The gauge.", "/nowhere"),
        "/x": page("One.", "/y"),
        "/y": page("Two.", "/x"),
    }
    done = crawl(home, site)
    assert paths(home, site) == ["/", "/lost", "/lost2", "/pump", "/stolen", "/y"] and done.counts["duplicates"] == 2
    assert ("/nowhere", "status 404") in [(url.removeprefix(site.url.rstrip("/")), why) for url, why in done.failures]
    assert crawl(home, site).stored == []


def test_redirects_are_followed_inside_the_site_and_circles_end(home, site):
    site.pages |= {
        "/": html("Start.", "/old", "/round", "/out"),
        "/old": redirect("/new"),
        "/new": html("New."),
        "/round": redirect("/about"),
        "/about": redirect("/round"),
        "/out": redirect("https://elsewhere.example/"),
    }
    done = crawl(home, site)
    assert paths(home, site) == ["/", "/new"] and done.counts["redirects"] == 4
    assert any("redirected out of the site" in why for _, why in done.failures)


def test_what_is_no_document_is_listed_with_its_type(home, site):
    site.pages |= {
        "/": html("Start.", "/cat.png", "/feed.json", "/a.md", "/empty", "/script"),
        "/cat.png": Page(b"\x89PNG", "image/png"),
        "/feed.json": Page(b'[{"user_id": "ines", "text": "hi"}]', "application/json"),
        "/a.md": Page(b"# Pump\n\nTwelve bar.\n", "text/plain"),
        "/empty": Page(b""),
        "/script": Page(b"<html><body><div id=app></div><script>draw()</script></body></html>"),
    }
    done = crawl(home, site)
    assert paths(home, site) == ["/", "/a.md"] and done.counts["other_types"] == 2 and done.counts["failed"] == 2
    assert any("--render" in why for _, why in done.failures)
    assert done.to_json()["failed"] == 2 and "2 failed" in done.summary() and "2 of other types" in done.summary()


def test_an_encoding_that_only_the_response_states_is_read(home, site):
    site.pages["/"] = Page(
        "<html><body><p>Caf\u00e9 am Hafen</p></body></html>".encode("latin-1"), "text/html; charset=ISO-8859-1"
    )
    crawl(home, site)
    (page,) = web_pages(home.web, "notes")
    assert "Caf\u00e9" in page.path.read_bytes().decode("utf-8")


def test_a_page_that_is_deleted_during_a_crawl_is_not_stored(home, site):
    def delete_then_answer(path: str) -> Page | None:
        if path == "/a":
            append_decisions(home.decisions, "tombstone", [tombstone("document", "notes", site.page("/a"))])
            return html("A.")
        return None

    site.pages["/"], site.answer = html("Start.", "/a"), delete_then_answer
    assert crawl(home, site).counts["deleted"] == 1 and paths(home, site) == ["/"]


def test_a_busy_server_is_asked_again_and_one_that_stays_busy_fails(home, site):
    answers = [Page(b"", status=503, headers={"Retry-After": "0"}), html("Back.")]
    site.pages["/"] = html("Start.", "/busy")
    site.answer = lambda path: answers.pop(0) if path == "/busy" and answers else None
    assert crawl(home, site).counts["new"] == 2


def test_what_a_killed_crawl_left_is_no_source_and_is_swept(home, site):
    site.pages |= {"/": html("Start.", "/a"), "/a": html("A.")}
    crawl(home, site)
    folder = home.web / "notes"
    record = next(p for p in folder.glob("*.json") if "/a" in p.read_text())
    record.unlink()  # the bytes were written, their record was not
    (folder / ".half.tmp").write_bytes(b"half")
    assert paths(home, site) == ["/"] and sweep_pages(home.web, "notes") == 3
    assert crawl(home, site).stored == [site.page("/a")]


def test_pages_are_private_files_with_session_url_and_time_and_the_pause_that_a_site_asks_for_is_kept(home, site):
    site.pages["/"] = html("The pump.")
    done = crawl(home, site)
    (page,) = web_pages(home.web, "notes")
    fields = json.loads(page.path.with_name(page.path.name + ".meta.yaml").read_text())
    assert fields["url"] == site.url and fields["crawl_session"] == done.session and fields["user_id"] == "shared"
    assert fields["fetched_at"].startswith("20")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in page.folder.iterdir()}
    assert modes == {0o600} and stat.S_IMODE(page.folder.stat().st_mode) == 0o700

    def robots(delay: str) -> Robots:
        return Robots(Protego.parse(f"User-agent: palimpsest\nCrawl-delay: {delay}\n"))

    assert [robots(delay).delay_s(0.2) for delay in ("2", "0.1", "9999", "soon")] == [2.0, 0.2, MAX_DELAY_S, 0.2]
    assert own_delay_s(AddressPolicy(), "https://example.org/", None) == 0.2


def test_mode_ingest_is_an_error_where_the_url_or_the_site_was_read(home, site):
    site.pages |= {"/": html("Start.", "/a"), "/a": html("A."), "/moved": redirect("/a")}
    ingest_url(home, site.page("/a"), mode="ingest")
    for url in ("/a", "/moved", "/a#part"):
        with pytest.raises(ArgumentError, match="--mode reingest"):
            ingest_url(home, site.page(url), mode="ingest")
    done = crawl(home, site, mode="ingest")
    assert done.stored == [site.url] and done.counts["failed"] == 1
    with pytest.raises(ArgumentError, match="--mode reingest"):
        crawl(home, site, mode="ingest")
    assert ingest_url(home, site.page("/a")).counts["unchanged"] == 1


def test_a_page_that_was_named_by_itself_is_no_page_of_a_site_that_retires(home, site):
    site.pages |= {"/": html("Start."), "/alone": html("Alone."), "/other": html("Other.")}
    for path in ("/alone", "/other"):
        ingest_url(home, site.page(path))
    assert paths(home, site) == ["/alone", "/other"]
    crawl(home, site)
    assert crawl(home, site).counts["gone"] == 0 and paths(home, site) == ["/", "/alone", "/other"]
    del site.pages["/alone"]
    assert ingest_url(home, site.page("/alone")).counts["gone"] == 1 and paths(home, site) == ["/", "/other"]


def test_a_page_of_another_user_is_not_taken_over(home, site):
    site.pages["/"] = html("Start.")
    ingest_url(home, site.url, user="ines")
    site.pages |= {"/": html("Start.", "/a"), "/a": html("A.")}
    with pytest.raises(PalimpsestError, match="a page of another user") as caught:
        ingest_url(home, site.url, user="bob")
    assert "ines" not in str(caught.value)
    with pytest.raises(PalimpsestError, match="a page of another user"):
        ingest_site(home, site.url, user="bob")


@pytest.mark.parametrize(
    "options",
    [{"depth": -1}, {"depth": 51}, {"max_pages": 0}, {"max_seconds": float("nan")}, {"delay_s": float("nan")}],
)
def test_an_option_out_of_its_range_is_an_error(home, site, options):
    with pytest.raises(ArgumentError):
        crawl(home, site, **options)
    assert site.requests == []


def test_pages_go_to_a_collection_of_their_own_in_a_home_without_one(tmp_path: Path, site):
    site.pages["/"] = html("Start.")
    assert ingest_url(tmp_path / "new", site.url).collection == "web"
    settings = (tmp_path / "new/collections/web/collection.yaml").read_text()
    assert "unit: chunk" in settings


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://example.org/", "is no URL of http or https"), ("file:///etc/passwd", "is no URL of http or https"),
        ("https://ines:secret@example.org/", "names a user or a password"), ("https://", "has no host that can be one"),
        ("https://example.org:99999/", "is no URL"), ("not a url", "is no URL of http or https"),
        ("https://example.org/" + "x" * 3000, "is longer than"),
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_page_is_an_error_that_does_not_repeat_a_password(home, url, problem):
    with pytest.raises(ArgumentError, match=problem) as caught:
        ingest_url(home, url)
    assert "secret" not in str(caught.value)
