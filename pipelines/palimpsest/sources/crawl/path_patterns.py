"""Groups the URLs of a site by the pattern of their paths."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_GROUPS = 20
_EXAMPLES = 3
_NUMBER = re.compile(r"\d+")
_ID = re.compile(r"(?=.*\d)[0-9a-fA-F-]{8,}")


@dataclass(frozen=True)
class PathGroup:
    """URLs with one pattern: how many there are, and the first of them."""

    pattern: str
    count: int
    examples: tuple[str, ...]


def group_paths(urls: Iterable[str]) -> list[PathGroup]:
    """Returns the groups of URLs, the largest first, then by pattern; at most 20.

    The last segment of a path is `*`, a number `{n}` and an id `{id}`. Where that gives too many patterns, deeper
    segments are `*` too, until there are few enough.
    """
    paths = sorted(set(urls))
    deepest = max((len(_segments(url)) for url in paths), default=0)
    found: dict[str, list[str]] = {}
    for depth in range(deepest, -1, -1):
        found = _grouped(paths, depth)
        if len(found) <= MAX_GROUPS:
            break
    groups = [PathGroup(pattern, len(group), tuple(group[:_EXAMPLES])) for pattern, group in found.items()]
    groups.sort(key=lambda g: (-g.count, g.pattern))
    if len(groups) > MAX_GROUPS:
        rest = groups[MAX_GROUPS - 1 :]
        others = PathGroup("other", sum(g.count for g in rest), tuple(g.examples[0] for g in rest[:_EXAMPLES]))
        groups = [*groups[: MAX_GROUPS - 1], others]
    return groups


def _grouped(urls: Iterable[str], depth: int) -> dict[str, list[str]]:
    found = defaultdict(list)
    for url in urls:
        found[_pattern(url, depth)].append(url)
    return found


def _pattern(url: str, depth: int) -> str:
    segments = _segments(url)
    if not segments:
        return "/"
    named = [_name(segment) for segment in segments[:-1][:depth]]
    return "/" + "/".join([*named, "*"])


def _segments(url: str) -> list[str]:
    return [segment for segment in urlsplit(url).path.split("/") if segment]


def _name(segment: str) -> str:
    if _NUMBER.fullmatch(segment):
        return "{n}"
    return "{id}" if _ID.fullmatch(segment) else segment
