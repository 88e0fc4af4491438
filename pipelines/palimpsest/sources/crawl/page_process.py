"""The worker process that reads pages for `page_reader`."""

import base64
import sys
from dataclasses import asdict

from palimpsest.core.ids import JsonObject
from palimpsest.sources.crawl.read_page import read_page
from palimpsest.sources.serve_requests import serve_requests
from palimpsest.store.collection_config import Limits


def main() -> None:
    """Reads pages until stdin ends."""
    limits = Limits.model_validate_json(sys.argv[1])

    def answer(request: tuple[str, str, str]) -> JsonObject:
        data, url, robots_tag = request
        facts = read_page(base64.b64decode(data), url, robots_tag, limits)
        return {**asdict(facts), "links": list(facts.links)}

    serve_requests(limits, answer)


if __name__ == "__main__":
    main()
