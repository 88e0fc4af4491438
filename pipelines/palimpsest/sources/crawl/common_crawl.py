"""The pages of a site that Common Crawl has seen, for an analysis of a site without sitemaps.

Only URLs are read from its index, no page. It learns which site is analyzed: it is queried where a person
wants it.
"""

import json
import os
from urllib.parse import urlencode, urljoin, urlsplit

from palimpsest.sources.crawl.fetch import Fetcher, FetchFailed
from palimpsest.sources.crawl.urls import SiteScope, folder_of, try_normalize

VARIABLE, _SERVER = "PALIMPSEST_COMMON_CRAWL_URL", "https://index.commoncrawl.org/"
_MAX_BYTES = 5_000_000
_ASKED_FOR = 4  # URLs for each that is wanted: many differ in what is no part of a page's one URL


def find_in_common_crawl(fetcher: Fetcher, scope: SiteScope, max_urls: int) -> list[str]:
    """Returns normal URLs of a site that the newest crawl has, in its order, each once.

    Raises:
        FetchFailed: the index does not answer, or not as it should.
    """
    server = os.environ.get(VARIABLE, "").strip() or _SERVER
    listed = _read(fetcher, urljoin(server, "collinfo.json"))
    try:
        index = str(json.loads(listed)[0]["cdx-api"])
    except (ValueError, LookupError, TypeError):
        raise FetchFailed("the list of crawls of Common Crawl cannot be read") from None
    parts = urlsplit(folder_of(scope.start))
    query = {"url": f"{parts.netloc}{parts.path}*", "output": "json", "fl": "url", "limit": _ASKED_FOR * max_urls}
    found: dict[str, None] = {}
    for line in _read(fetcher, f"{urljoin(server, index)}?{urlencode(query)}").splitlines():
        try:
            url = try_normalize(str(json.loads(line)["url"]), scope.start)
        except (ValueError, LookupError, TypeError):
            continue
        if url is not None and scope.contains(url):
            found[url] = None
    return list(found)


def _read(fetcher: Fetcher, url: str) -> str:
    """Returns the text at a URL; empty where the index has no page of a site (404).

    Raises:
        FetchFailed: it cannot be read.
    """
    response = fetcher.get_following(url, _MAX_BYTES)
    if response.status == 404:
        return ""
    if not 200 <= response.status < 300:
        raise FetchFailed(f"Common Crawl answered with status {response.status}")
    return response.body.decode("utf-8", "replace")
