"""Pages that scripts draw, in Debian's Chromium: their text is read, and nothing else of this machine is reached."""

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.sources.crawl import CrawlOptions, ingest_site, ingest_url
from palimpsest.sources.crawl.address_guard import VARIABLE, AddressPolicy
from palimpsest.sources.crawl.fetch import FetchFailed
from palimpsest.sources.crawl.render import VARIABLE as PROGRAM
from palimpsest.sources.crawl.render import Browser
from palimpsest.store.web_pages import web_pages
from tests.sources.crawl.local_site import Page, html, redirect, serve

DRAWN = (
    "<html><body><div id=app></div><script>"
    "const text = 'Drawn ' + 'by a script.', app = document.getElementById('app');"
    "app.innerHTML = '<main><p>' + text + '</p><a href=\"/next\">next</a></main>';"
    "</script></body></html>"
)


@pytest.mark.browser
def test_text_and_links_that_scripts_write_are_read(home, site):
    site.pages |= {"/": Page(DRAWN.encode()), "/next": html("Next.")}
    done = ingest_site(home, site.url, CrawlOptions(render=True))
    assert done.counts["new"] == 2
    assert b"Drawn by a script." in b"".join(page.path.read_bytes() for page in web_pages(home.web, "notes"))


@pytest.mark.browser
def test_a_page_that_asks_other_servers_reaches_none(site, monkeypatch):
    with serve({"/": html("Inner secret.")}) as inner:
        port, inner_port = (url.rpartition(":")[2].strip("/") for url in (site.url, inner.url))
        monkeypatch.setenv(VARIABLE, "site.example")
        asks = "".join(
            f"fetch('http://{host}:{inner_port}/').then(r => r.text()).then(t => document.body.append(t));"
            for host in ("127.0.0.1", "localhost", "[::1]", "2130706433")
        )
        frame = f"<iframe src='{inner.url}'></iframe><img src='{inner.url}'>"
        site.pages["/"] = Page(f"<html><body><p>Outer.</p>{frame}<script>{asks}</script></body></html>".encode())
        browser = Browser.find(AddressPolicy.from_environment())
        monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("127.0.0.1", int(port)))])
        drawn = browser.render(f"http://site.example:{port}/")
        assert b"Outer." in drawn and inner.requests == []
        site.pages["/"] = redirect(inner.url)
        with pytest.raises(FetchFailed):
            browser.render(f"http://site.example:{port}/")
        assert inner.requests == []


def test_the_address_of_a_page_is_checked_before_a_browser_starts_and_one_not_installed_names_the_fix(
    site, home, monkeypatch
):
    browser = Browser("/nowhere/chromium", AddressPolicy())
    with pytest.raises(FetchFailed, match="private address"):
        browser.render(site.url)
    monkeypatch.setenv(PROGRAM, "no-such-chromium")
    site.pages["/"] = html("Start.")
    with pytest.raises(PalimpsestError, match="apt install chromium"):
        ingest_url(home, site.url, render=True)
