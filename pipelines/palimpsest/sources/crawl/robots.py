"""What a site's robots.txt allows, by the protocol of RFC 9309."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palimpsest.sources.crawl.fetch import Fetcher, FetchFailed
from palimpsest.sources.crawl.urls import ROBOT_NAME, origin_of, try_normalize

if TYPE_CHECKING:
    from protego import Protego

MAX_BYTES = 512_000
MAX_DELAY_S = 30.0


@dataclass(frozen=True)
class Robots:
    """The rules of one server.

    Attributes:
        rules: of its robots.txt; None where there is none, so that everything is allowed.
        problem: why robots.txt could not be read, so that nothing is allowed; empty where it could.
        sitemaps: URLs that it names, in their order.
    """

    rules: "Protego | None" = None
    problem: str = ""
    sitemaps: tuple[str, ...] = ()

    def allows(self, url: str) -> bool:
        """Returns whether a URL may be fetched."""
        return not self.problem and (self.rules is None or bool(self.rules.can_fetch(url, ROBOT_NAME)))

    def delay_s(self, own_s: float) -> float:
        """Returns the pause between two requests: the site's where it is longer than our own, at most 30 s."""
        stated = self.rules.crawl_delay(ROBOT_NAME) if self.rules is not None else None
        return max(own_s, min(stated or 0.0, MAX_DELAY_S))


class RobotsOfServers:
    """The rules of each server that a crawl comes to, read once."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._known: dict[str, Robots] = {}

    def of(self, url: str) -> Robots:
        """Returns the rules of a URL's server.

        A server without a robots.txt (status 4xx) allows everything; one that does not answer allows nothing.

        Raises:
            FetchFailed: the guard of addresses refuses the server.
        """
        origin = origin_of(url)
        if origin not in self._known:
            self._known[origin] = self._load(origin + "robots.txt")
        return self._known[origin]

    def allows(self, url: str) -> bool:
        """Returns whether a URL may be fetched; where the guard of addresses refuses it, the fetch says so."""
        try:
            return self.of(url).allows(url)
        except FetchFailed:
            return True

    def _load(self, where: str) -> Robots:
        from protego import Protego

        try:
            response = self._fetcher.get_following(where, MAX_BYTES)
        except FetchFailed as e:
            if e.is_refused:
                raise
            return Robots(problem=f"robots.txt cannot be read: {e}")
        if response.status == 429 or response.status >= 500:
            return Robots(problem=f"robots.txt cannot be read: status {response.status}")
        if not response.is_page:
            return Robots()
        rules = Protego.parse(response.body.decode("utf-8", "replace"))
        return Robots(
            rules, sitemaps=tuple(dict.fromkeys(filter(None, (try_normalize(s, where) for s in rules.sitemaps))))
        )
