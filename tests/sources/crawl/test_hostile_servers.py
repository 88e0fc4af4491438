"""Servers that send too much, too slowly, or something other than they say cost one page each, and nothing else."""

import gzip
import socket
import threading
import zlib
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.sources.crawl import CrawlOptions, ingest_site
from palimpsest.sources.crawl.address_guard import VARIABLE, AddressPolicy
from palimpsest.sources.crawl.fetch import Fetcher, FetchFailed, FetchLimits
from palimpsest.sources.crawl.sitemaps import _NoSitemap, parse_sitemap
from palimpsest.sources.crawl.urls import UrlRefused, normalize_url
from palimpsest.store.web_pages import web_pages
from tests.sources.crawl.local_site import Page, html


def fetch(site, path: str, **limits: float) -> bytes:
    with Fetcher(AddressPolicy.from_environment(), FetchLimits(**limits)) as fetcher:  # type: ignore[arg-type]
        return fetcher.get(site.page(path)).body


def test_a_body_larger_than_the_limit_is_refused_packed_or_not(site):
    big = b"x" * 200_000
    site.pages |= {
        "/plain": Page(big),
        "/bomb": Page(gzip.compress(big * 50), headers={"Content-Encoding": "gzip"}),
        "/nested": Page(gzip.compress(gzip.compress(big)), headers={"Content-Encoding": "gzip"}),
    }
    for path in ("/plain", "/bomb"):
        with pytest.raises(FetchFailed, match="larger than 100,000 bytes"):
            fetch(site, path, max_bytes=100_000)
    assert gzip.decompress(fetch(site, "/nested", max_bytes=100_000)) == big  # unpacked once, as the server says


def test_packed_bodies_are_unpacked_and_broken_ones_refused(site):
    text = html("The pump.").body
    site.pages |= {
        "/gzip": Page(gzip.compress(text), headers={"Content-Encoding": "gzip"}),
        "/deflate": Page(zlib.compress(text), headers={"Content-Encoding": "deflate"}),
        "/cut": Page(gzip.compress(text)[:-9], headers={"Content-Encoding": "gzip"}),
        "/false": Page(text, headers={"Content-Encoding": "gzip"}),
        "/brotli": Page(text, headers={"Content-Encoding": "br"}),
    }
    assert fetch(site, "/gzip") == fetch(site, "/deflate") == text
    for path, why in {"/cut": "its end is missing", "/false": "not packed", "/brotli": "packed by 'br'"}.items():
        with pytest.raises(FetchFailed, match=why):
            fetch(site, path)


def test_a_server_that_sends_a_byte_at_a_time_is_given_up(site):
    site.pages["/"] = Page(b"x" * 1000, drip_s=0.05)
    with pytest.raises(FetchFailed, match="no whole response within"):
        fetch(site, "/", request_s=0.3)


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"220 mail.example ESMTP\r\n", "no answer of HTTP"),
        (b"HTTP/1.1 abc OK\r\n\r\nok", "no answer of HTTP"),
        (OK + b"Content-Length: -5\r\n\r\nok", "no answer of HTTP"),
        (OK + b"Content-Length: 20\r\n\r\nok", "the connection broke"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n", "the connection broke"),
        (OK + b"X: " + b"y" * 3_000_000, "no answer of HTTP|the connection broke"),
        (OK + b"X: y\r\n" * 50_000, "no answer of HTTP|the connection broke"),
        (b"", "the connection broke"),
    ],
)
def test_what_is_no_whole_answer_of_http_is_refused_without_a_word_on_stderr(answer, why, monkeypatch, capfd):
    monkeypatch.setenv(VARIABLE, "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def respond() -> None:
            with suppress(OSError):  # the client had enough
                connection, _ = server.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

        threading.Thread(target=respond, daemon=True).start()
        limits = FetchLimits(request_s=10.0, attempts=1)
        with Fetcher(AddressPolicy.from_environment(), limits) as fetcher, pytest.raises(FetchFailed, match=why):
            fetcher.get(f"http://127.0.0.1:{server.getsockname()[1]}/")
    assert capfd.readouterr().err == ""


def test_a_crawl_ends_when_its_time_is_over(home, site):
    site.pages |= {"/": html("Start.", "/slow"), "/slow": Page(b"<p>x</p>" * 100, drip_s=0.05)}
    done = ingest_site(home, site.url, CrawlOptions(max_seconds=3.0))
    assert done.stored == [site.url] and done.counts["failed"] == 1 and not done.is_complete


def test_a_sitemap_may_be_lines_and_one_that_would_grow_is_refused():
    laughs = b"".join(b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 9))
    bomb = (
        b'<?xml version="1.0"?><!DOCTYPE u [<!ENTITY a0 "ha">'
        + laughs
        + b"]><urlset><url><loc>&a8;</loc></url></urlset>"
    )
    with pytest.raises(_NoSitemap):
        parse_sitemap(bomb, "https://example.org/sitemap.xml")
    with pytest.raises(_NoSitemap, match="broken"):
        parse_sitemap(b"<urlset>" + b"<url>" * 5000, "https://example.org/sitemap.xml")
    lines = b"https://example.org/a\nhttps://example.org/b\njavascript:alert(1)\n\n"
    assert parse_sitemap(lines, "https://example.org/sitemap.txt")[0] == [
        "https://example.org/a",
        "https://example.org/b",
    ]


def test_pages_that_break_parsers_are_read_or_listed(home, site):
    bad = {
        "/deep": b"<div>" * 20_000 + b"down here",
        "/null": b"<p>a\0b \xff\xfe c</p>",
        "/binary": bytes(range(256)) * 40,
        "/huge": b"<p>" + b"word " * 1_100_000,
        "/unclosed": b"<html><body><p>Open <b>and <a href='/x'>left",
        "/links": b"".join(b'<a href="/n%d">n</a>' % n for n in range(20_000)),
    }
    site.pages |= {path: Page(body) for path, body in bad.items()}
    site.pages["/"] = html("Start.", *bad)
    done = ingest_site(home, site.url, CrawlOptions(max_pages=20))
    accounted = sum(done.counts[n] for n in ("new", "failed", "duplicates", "not_fetched", "other_types"))
    assert done.counts["fetched"] >= 5 and accounted >= 6
    assert all(page.path.is_file() for page in web_pages(home.web, "notes"))


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("HTTP://EXAMPLE.org:80", "http://example.org/"),
        ("https://example.org:443/a/../b/./c?x=1&utm_source=y#z", "https://example.org/b/c?x=1"),
        ("https://example.org/%7Euser/a%2fb?q=%e4", "https://example.org/~user/a%2Fb?q=%E4"),
        ("https://exämple.org/ä", "https://xn--exmple-cua.org/%C3%A4"),
        ("https://example.org./a?PHPSESSID=1", "https://example.org/a"),
        ("https://example.org/../../etc", "https://example.org/etc"),
        ("https://[2606:2800:220:1::1]/", "https://[2606:2800:220:1::1]/"),
        ("https://example.org\\@evil.example/", "https://example.org/@evil.example/"),
    ],
)
def test_a_page_has_one_url(text, normal):
    assert normalize_url(text) == normal == normalize_url(normal)


_PIECES = (
    *(
        "http://", "https:", "//", "/", "\\", "@", ":", "80", "[", "::1", "]", "..", ".", "%", "%2", "%2f", "#", "?",
        "&", "=",
    ),
    *(";jsessionid=", "utm_x", "exämple", "a", "\x00", "\n", " ", "\ud800", "\u202e", "xn--", "\u3002", "%00"),
)  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join) | st.text(max_size=40), st.booleans())
def test_any_text_is_one_normal_url_or_none(text, is_link):
    base = "https://example.org/a/b?c" if is_link else None
    try:
        url = normalize_url(text, base)
    except UrlRefused:
        return
    parts = urlsplit(url)
    assert parts.scheme in ("http", "https") and parts.hostname and not parts.fragment and "@" not in parts.netloc
    assert url.isascii() and url.isprintable() and " " not in url and normalize_url(url) == url


def test_links_that_are_no_pages_are_none():
    for link in (
        "javascript:alert(1)",
        "data:text/html,x",
        "//user:pw@example.org/",
        "file:///etc/passwd",
        "http://[bad",
    ):
        with pytest.raises(UrlRefused):
            normalize_url(link, "https://example.org/")
