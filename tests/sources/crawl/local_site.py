"""A real server on 127.0.0.1 with pages that a test writes, which remembers every request."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from palimpsest.core.files import file_hash_of

NO_ROBOTS = "User-agent: *\nAllow: /\n"


@dataclass
class Page:
    """What the server answers: `drip_s` pauses after each of its bytes."""

    body: bytes
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    has_etag: bool = False
    last_modified: str = ""
    drip_s: float = 0.0


def html(text: str, *links: str, title: str = "", head: str = "") -> Page:
    """Returns a page of HTML with a text and links, as people write them."""
    anchors = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    nav = f"<nav><ul>{anchors}</ul></nav>" if links else ""
    head = f"<head><title>{title or text[:20]}</title>{head}</head>"
    return Page(f"<html>{head}<body>{nav}<main><p>{text}</p></main></body></html>".encode())


def redirect(to: str, status: int = 302) -> Page:
    """Returns a redirect."""
    return Page(b"", status=status, headers={"Location": to})


def sitemap(*urls: str) -> Page:
    """Returns a sitemap of URLs."""
    rows = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    body = f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</urlset>'
    return Page(body.encode(), "application/xml")


def sitemap_index(*urls: str) -> Page:
    """Returns an index of sitemaps."""
    rows = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    body = f'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</sitemapindex>'
    return Page(body.encode(), "text/xml")


@dataclass
class LocalSite:
    """The pages of a server by path, and the requests that it got: path and headers.

    Attributes:
        url: its root.
        pages: what it answers.
        connections: address and port of each client.
        answer: answers paths that `pages` does not have; default: 404.
    """

    url: str
    pages: dict[str, Page]
    answer: Callable[[str], Page | None] = lambda path: None
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    connections: set[tuple[str, int]] = field(default_factory=set)

    @property
    def paths(self) -> list[str]:
        """The paths that were requested, without robots.txt and sitemaps that are guessed."""
        return [path for path, _ in self.requests if path not in ("/robots.txt", "/sitemap.xml")]

    def page(self, path: str) -> str:
        """Returns the URL of a path."""
        return self.url.rstrip("/") + path


@contextmanager
def serve(pages: dict[str, Page]) -> Iterator[LocalSite]:
    """Yields a server with these pages."""
    site = LocalSite("", pages)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            site.requests.append((self.path, dict(self.headers)))
            site.connections.add(self.client_address)
            page = site.pages.get(self.path) or site.answer(self.path) or Page(b"not here", status=404)
            headers = {"Content-Type": page.content_type, **page.headers}
            tag = f'"{file_hash_of(page.body)}"'
            headers |= {"ETag": tag} if page.has_etag else {}
            headers |= {"Last-Modified": page.last_modified} if page.last_modified else {}
            same_tag = page.has_etag and self.headers.get("If-None-Match") == tag
            same_time = page.last_modified and self.headers.get("If-Modified-Since") == page.last_modified
            is_same = same_tag or same_time
            body = b"" if is_same else page.body
            self.send_response(304 if is_same else page.status)
            for name, value in headers.items():
                self.send_header(name, value)
            if not is_same:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                if page.drip_s:
                    for byte in body:
                        self.wfile.write(bytes([byte]))
                        time.sleep(page.drip_s)
                else:
                    self.wfile.write(body)
            except OSError:  # the client had enough
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:  # a client that had enough
            pass

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
