"""How long two crawls of a site of 500 pages take, on a real server of this machine.

    python -m palimpsest_eval.studies.crawl_site [--pages 500] [--no-etag]

The pages link to each other as a tree of two links a page; there is no sitemap. The second crawl is of the same site.
"""

import argparse
import hashlib
import os
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from palimpsest.core.progress import say
from palimpsest.sources.crawl import CrawlOptions, ingest_site
from palimpsest.sources.crawl.address_guard import VARIABLE

_PARAGRAPH = "Valve {n} of the station was inspected, its pressure is {bar} bar and its seal is of the type {kind}. "


def page(number: int, pages: int) -> bytes:
    """Returns a page of about 8 kB with a menu, a text of its own and two links."""
    links = "".join(f'<li><a href="/{n}">Page {n}</a></li>' for n in (2 * number + 1, 2 * number + 2) if n < pages)
    text = "".join(
        f"<p>{_PARAGRAPH.format(n=f'{number}-{part}', bar=number % 40 + part, kind=chr(65 + part)) * 4}</p>"
        for part in range(16)
    )
    head = f"<html><head><title>Page {number}</title></head><body><nav><ul>{links}</ul></nav>"
    return f"{head}<main><h1>Page {number}</h1>{text}</main></body></html>".encode()


def serve(pages: int, has_etag: bool) -> ThreadingHTTPServer:
    """Returns a running server of the site."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            number = self.path.strip("/") or "0"
            if not number.isdigit() or int(number) >= pages:
                self.send_error(404)
                return
            body = page(int(number), pages)
            tag = f'"{hashlib.blake2b(body, digest_size=8).hexdigest()}"' if has_etag else ""
            is_same = bool(tag) and self.headers.get("If-None-Match") == tag
            self.send_response(304 if is_same else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            if tag:
                self.send_header("ETag", tag)
            if not is_same:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if not is_same:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    """Prints a line for each crawl."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--no-etag", action="store_true", help="the server cannot say that a page did not change")
    arguments = parser.parse_args()
    os.environ[VARIABLE] = "127.0.0.1"
    server = serve(arguments.pages, not arguments.no_etag)
    say("| crawl | fetched | stored | unchanged | seconds |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="palimpsest-crawl-") as home:
        for name in ("first", "second"):
            options = CrawlOptions(depth=50, max_pages=arguments.pages)
            done = ingest_site(f"{home}/home", f"http://127.0.0.1:{server.server_port}/", options)
            n = done.counts
            say(f"| {name} | {n['fetched']} | {len(done.stored)} | {n['unchanged']} | {done.seconds:.1f} |")
    server.shutdown()


if __name__ == "__main__":
    main()
