"""How a site is crawled."""

from dataclasses import dataclass

from palimpsest.core.errors import ArgumentError
from palimpsest.store.site_entries import DEFAULT_DEPTH, DEFAULT_PAGES, MAX_DEPTH, MAX_PAGES, Mode, SiteEntry

MAX_SECONDS, MAX_DELAY_S = 3_600.0, 60.0


@dataclass(frozen=True)
class CrawlOptions:
    """How a site is crawled.

    Attributes:
        depth: links from the start to a page, at most; pages of a sitemap have depth 1.
        max_pages: pages that are fetched, at most.
        include: patterns of URLs of which one must match; none means that all do.
        exclude: patterns of URLs of which none may match.
        mode: `ingest` is an error where the site was crawled before; `reingest` updates its pages.
        delay_s: pause between two requests; None means 0.2 s, and none for hosts that the operator names.
        follow_links: follow links although the site has a sitemap.
        render: let a browser draw the pages.
        max_seconds: of the whole crawl.
    """

    depth: int = DEFAULT_DEPTH
    max_pages: int = DEFAULT_PAGES
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    mode: Mode = "reingest"
    delay_s: float | None = None
    follow_links: bool = False
    render: bool = False
    max_seconds: float = MAX_SECONDS

    @classmethod
    def of_entry(cls, entry: SiteEntry) -> "CrawlOptions":
        """Returns the options of an entry of sources.yaml."""
        names = ("depth", "max_pages", "include", "exclude", "mode", "delay_s", "render")
        return cls(**{name: getattr(entry, name) for name in names})

    def check(self) -> None:
        """Checks the numbers.

        Raises:
            ArgumentError: one is out of its range.
        """
        if not 0 <= self.depth <= MAX_DEPTH:
            raise ArgumentError("depth", f"must be 0 to {MAX_DEPTH}", self.depth)
        if not 1 <= self.max_pages <= MAX_PAGES:
            raise ArgumentError("max_pages", f"must be 1 to {MAX_PAGES:,}", self.max_pages)
        if not self.max_seconds > 0:  # nan included
            raise ArgumentError("seconds", "must be more than 0", self.max_seconds)
        if self.delay_s is not None and not 0 <= self.delay_s <= MAX_DELAY_S:
            raise ArgumentError("delay", f"must be 0 to {MAX_DELAY_S:.0f} seconds", self.delay_s)
