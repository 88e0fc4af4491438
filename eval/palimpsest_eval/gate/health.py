"""Memory health: what a build contains, what was retired and why, what repeats, how long chains of versions are."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import NotRequired, TypedDict, cast

import polars as pl

from palimpsest.core.ids import SCOPE
from palimpsest.store.tables import empty

TABLES = (
    "documents",
    "memories",
    "versions",
    "relations",
    "topics",
    "topic_memories",
    "entities",
    "mentions",
    "rejects",
)
LIMITS = ("retired_share", "expired_share", "duplicate_share", "undated_share", "without_topic_share")
MAX_CHAIN = 50


class TopicSize(TypedDict):
    """A topic and how many memories it has."""

    collection: str
    user_id: str
    project_id: str
    label: str
    memories: int


class MemoryHealth(TypedDict):
    """Counts and shares of a build's memories.

    Shares are of all memories for `retired_share`, of the latest for the others; `chains` maps the length of a chain
    of updates (2 or more versions of one fact) to how many there are.
    """

    documents: int
    memories: int
    latest: int
    retired: int
    retired_by_update: int
    retired_with_their_source: int
    duplicates: int
    undated: int
    without_topic: int
    entities: int
    topics: int
    rejects: int
    chains: dict[int, int]
    largest_topics: list[TopicSize]
    retired_share: float
    duplicate_share: float
    undated_share: float
    without_topic_share: float
    expired: NotRequired[int]
    expired_share: NotRequired[float]


def memory_health(tables: Mapping[str, pl.DataFrame], now: datetime | None = None) -> MemoryHealth:
    """Returns counts and shares of a build's memories.

    Args:
        tables: the build's tables, of one or several collections; one that is not there counts as empty.
        now: time at which a latest memory whose end date has passed is expired; None leaves `expired` out.
    """
    t = {name: tables[name] if name in tables else empty(name) for name in TABLES}
    memories = t["memories"].join(
        t["versions"].select("memory_id", "is_latest", "superseded_by"), on="memory_id", how="left"
    )
    memories = memories.with_columns(pl.col("is_latest").fill_null(True))
    latest = memories.filter("is_latest")
    retired = memories.height - latest.height
    updates = t["relations"].filter(pl.col("label") == "UPDATE")
    replaced = memories.filter(~pl.col("is_latest")).join(
        updates.select(memory_id="older_id", superseded_by="newer_id"), on=["memory_id", "superseded_by"], how="semi"
    )
    same = latest.group_by(*SCOPE, pl.col("text").str.replace_all(r"\s+", " ").str.to_lowercase()).len()
    repeats = int(same.filter(pl.col("len") > 1).select((pl.col("len") - 1).sum()).item() or 0)
    topicless = latest.join(t["topic_memories"], on="memory_id", how="anti").height
    undated = latest["observed_at"].null_count()
    health: MemoryHealth = {
        "documents": t["documents"].filter(pl.col("is_current").fill_null(True)).height,
        "memories": memories.height,
        "latest": latest.height,
        "retired": retired,
        "retired_by_update": replaced.height,
        "retired_with_their_source": retired - replaced.height,
        "duplicates": repeats,
        "undated": undated,
        "without_topic": topicless,
        "entities": t["entities"].height,
        "topics": t["topics"].height,
        "rejects": t["rejects"].height,
        "chains": _chains(updates),
        "largest_topics": _largest_topics(t),
        "retired_share": share(retired, memories.height),
        "duplicate_share": share(repeats, latest.height),
        "undated_share": share(undated, latest.height),
        "without_topic_share": share(topicless, latest.height),
    }
    if now is not None:
        expired = latest.filter(pl.min_horizontal("valid_until", "retention_until") < now).height
        health["expired"], health["expired_share"] = expired, share(expired, latest.height)
    return health


def share(part: int, total: int) -> float:
    """Returns a part of a whole as a fraction; 0 of nothing."""
    return round(part / total, 6) if total else 0.0


def _chains(updates: pl.DataFrame) -> dict[int, int]:
    """Returns how many chains of each length there are: the longest path from each newest version down its updates."""
    older: dict[str, list[str]] = {}
    for newer_id, older_id in updates.select("newer_id", "older_id").sort(pl.all()).iter_rows():
        older.setdefault(newer_id, []).append(older_id)
    lengths: dict[str, int] = {}
    replaced = {o for found in older.values() for o in found}
    for head in sorted(older.keys() - replaced):
        waiting, seen = [(head, 1)], 1
        while waiting:
            memory_id, length = waiting.pop()
            seen = max(seen, length)
            waiting += [(o, length + 1) for o in older.get(memory_id, ()) if length < MAX_CHAIN]
        lengths[head] = seen
    return dict(sorted(Counter(lengths.values()).items()))


def _largest_topics(t: Mapping[str, pl.DataFrame]) -> list[TopicSize]:
    sizes = t["topic_memories"].group_by("topic_id").len("memories")
    topics = t["topics"].join(sizes, on="topic_id", how="left").with_columns(pl.col("memories").fill_null(0))
    largest = topics.sort(["memories", "topic_id"], descending=[True, False]).head(10)
    return cast(list[TopicSize], largest.select(*SCOPE, "label", "memories").to_dicts())


def over_limits(health: MemoryHealth, limits: Mapping[str, float]) -> list[str]:
    """Returns a warning for each share of the health that is over its limit."""
    shares = {name: value for name, value in health.items() if name in LIMITS and isinstance(value, float)}
    return [
        f"memory health: {name} {shares[name]:.3f} is over {limits[name]:.3f}"
        for name in LIMITS
        if name in limits and shares.get(name, 0.0) > limits[name]
    ]
