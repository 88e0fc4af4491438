"""What a crawl did: every URL that it came to is counted once by what became of it."""

from collections import Counter
from dataclasses import dataclass, field

from palimpsest.core.counted import counted
from palimpsest.core.json_types import JsonObject

OUTCOMES = (
    "new",
    "changed",
    "unchanged",
    "duplicates",
    "redirects",
    "robots",
    "excluded",
    "other_types",
    "deleted",
    "failed",
    "not_fetched",
)
"""What becomes of a URL. `robots`: robots.txt or the page itself forbids it; `deleted`: from the home, before."""
_MAX_SHOWN = 10


@dataclass
class CrawlResult:
    """What a crawl did.

    Attributes:
        collection: where its pages are.
        session: id of the crawl, which is in the metadata of the pages that it stored.
        url: where it began.
        counts: URLs by outcome, and `fetched` (responses with a page, or without change), `gone` (pages that retire).
        stored: uris of new and changed pages.
        failures: URL and reason of each that failed, was of another type, or was forbidden.
        sitemaps: that were read.
        is_complete: whether every page of the site was looked at, so that pages which were not reached retire.
        is_final: whether no failure would end otherwise by another attempt.
        seconds: of the whole crawl.
    """

    collection: str
    session: str
    url: str
    counts: Counter[str] = field(default_factory=Counter)
    stored: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    sitemaps: tuple[str, ...] = ()
    is_complete: bool = True
    is_final: bool = True
    seconds: float = 0.0

    def fail(self, url: str, why: str, outcome: str = "failed") -> None:
        """Counts a URL that gave no page, with the reason."""
        self.counts[outcome] += 1
        self.failures.append((url, why))

    def to_json(self) -> JsonObject:
        """Returns the JSON that `palimpsest ingest` prints."""
        counts = {name: self.counts[name] for name in ("fetched", *OUTCOMES, "gone")}
        return {
            "collection": self.collection,
            "session": self.session,
            "url": self.url,
            "stored": len(self.stored),
            "pages": sorted(self.stored),
            **counts,
            "failures": [{"url": url, "reason": why} for url, why in self.failures],
            "sitemaps": list(self.sitemaps),
            "complete": self.is_complete,
            "seconds": round(self.seconds, 2),
        }

    def summary(self) -> str:
        """Returns the lines that people read: every count that is not 0, then the first failures."""
        n = self.counts
        parts = [
            f"{counted(n['fetched'], 'page')} fetched",
            f"{len(self.stored)} stored ({n['new']} new, {n['changed']} changed)",
            f"{n['unchanged']} unchanged",
        ]
        words = {
            "duplicates": "duplicates",
            "redirects": "redirects",
            "robots": "refused by robots rules",
            "excluded": "excluded",
            "other_types": "of other types",
            "deleted": "deleted before, not stored",
            "gone": "gone, which retire",
            "failed": "failed",
            "not_fetched": "not fetched: a limit was reached",
        }
        parts += [f"{n[name]} {text}" for name, text in words.items() if n[name]]
        lines = [f"{self.url}: {', '.join(parts)}; {self.seconds:.1f} s, session {self.session}"]
        lines += [f"  {url}: {why}" for url, why in self.failures[:_MAX_SHOWN]]
        if (more := len(self.failures) - _MAX_SHOWN) > 0:
            lines.append(f"  and {more} more, in --json")
        if not self.is_complete:
            lines.append("  not every page was looked at: pages that were not reached are kept")
        return "\n".join(lines)
