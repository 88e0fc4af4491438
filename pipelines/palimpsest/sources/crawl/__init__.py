"""The web as a source: pages and sites are fetched into the home, and the next build reads them like other files."""

from palimpsest.sources.crawl.crawl_site import CrawlOptions, CrawlResult
from palimpsest.sources.crawl.ingest_web import ingest_site, ingest_url

__all__ = ["CrawlOptions", "CrawlResult", "ingest_site", "ingest_url"]
