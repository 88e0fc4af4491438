"""The page of a home's health: what `home_health` computed as cards, charts and tables; nothing is computed twice."""

import datetime as dt
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from palimpsest.core.files import write_bytes
from palimpsest.core.ids import SCOPE, JsonObject
from palimpsest.pipeline.summary import build_summary
from palimpsest.relations.labelers.label_types import DISPUTED
from palimpsest.relations.labelers.low_trust import LOW_TRUST, REVIEW_REASONS
from palimpsest.relations.relation_review import review_table
from palimpsest.store.builds import Build, kept_builds
from palimpsest.store.home import Home
from palimpsest.store.proposals import KINDS, STATES, read_proposals
from palimpsest.store.tables import empty
from palimpsest_eval.gate.health import TABLES as HEALTH_TABLES
from palimpsest_eval.gate.health import MemoryHealth, memory_health, share
from palimpsest_eval.golden.questions import Tables, collection_tables
from palimpsest_eval.report.charts import Spark, spark
from palimpsest_eval.report.page import render_page
from palimpsest_eval.report.pictures import Bar, column_chart

if TYPE_CHECKING:
    from palimpsest_eval.report.pictures import Chart

# The numbers of each published build, kept in the home after the build itself is gone.
#
# `<home>/health/history.jsonl` has a line of JSON a build: its number, its time, numbers and seconds by stage. No name
# of a collection or user and no text is in it, so that a delete has nothing to remove.


MAX_BUILDS = 1000


@dataclass(frozen=True)
class BuildNumbers:
    """What a build was.

    Attributes:
        numbers: by name, as `HomeHealth.numbers` has them; of a build that was never recorded, those of its manifest.
        seconds: wall time by stage.
    """

    build_id: str
    created_at: str
    numbers: Mapping[str, float]
    seconds: Mapping[str, float]


def numbers_of(home: Home, build: Build) -> BuildNumbers:
    """Returns what the manifest of a finished build says."""
    manifest, summary = build.manifest, build_summary(home, build)
    records = [record for stages in manifest.stages.values() for record in stages.values()]
    numbers = {
        "documents": manifest.documents,
        "memories": manifest.memories,
        "latest": manifest.memories - manifest.retired,
        "retired": manifest.retired,
        "rejects": manifest.rejects,
        "latest_share": share(manifest.memories - manifest.retired, manifest.memories),
        "embeddings": summary.work.get("embeddings", 0),
        "lm_calls": summary.work.get("lm_calls", 0),
        "cost": round(sum(r.numbers.get("cost", 0.0) for r in records if r.cache_status == "done"), 6),
        "seconds": round(sum(summary.seconds.values()), 3),
    }
    return BuildNumbers(build.build_id, manifest.created_at, numbers, dict(summary.seconds))


def read_history(home: Home) -> list[BuildNumbers]:
    """Returns the builds that were published, oldest first: those recorded, and what manifests say of the others."""
    found = {row.build_id: row for row in _recorded(home)}
    current = {b.build_id: b for b in kept_builds(home) if b.is_finished}
    missing = {i: numbers_of(home, b) for i, b in current.items() if i not in found}
    return [row for _, row in sorted((found | missing).items())]


def record(home: Home, row: BuildNumbers) -> None:
    """Writes the numbers of a build, over those recorded for it before; of the oldest builds none are kept."""
    rows = {r.build_id: r for r in _recorded(home)} | {row.build_id: row}
    lines = [json.dumps(asdict(r), sort_keys=True) for _, r in sorted(rows.items())][-MAX_BUILDS:]
    path = home.path / "health" / "history.jsonl"
    write_bytes(path, "".join(f"{line}\n" for line in lines).encode())
    path.chmod(0o600)


def _recorded(home: Home) -> list[BuildNumbers]:
    path = home.path / "health" / "history.jsonl"
    if not path.is_file():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row: Any = json.loads(line)
            rows.append(BuildNumbers(row["build_id"], row["created_at"], dict(row["numbers"]), dict(row["seconds"])))
        except (ValueError, TypeError, KeyError):
            continue  # a damaged line costs one build of the history
    return rows


# Ages and confidences of memories, relations and facts in fixed groups.

AGE_GROUPS = ((1, "day"), (7, "week"), (30, "month"), (90, "quarter"), (365, "year"), (None, "older"))
"""Most days, and the name."""
BINS = 10
_DAY_S = 86_400.0


@dataclass(frozen=True)
class Ages:
    """How old the latest memories are, by when they were observed.

    Attributes:
        groups: how many by group, in the order of `AGE_GROUPS`; a memory is in the first that it fits.
        undated: how many have no date.
        median_days: of the dated ones; None without one, as is p90_days.
    """

    groups: tuple[tuple[str, int], ...]
    undated: int
    median_days: float | None
    p90_days: float | None


@dataclass(frozen=True)
class Confidence:
    """Confidences from 0 to 1: how many in each tenth, and their mean; None without one."""

    bins: tuple[int, ...]
    mean: float | None


def ages(observed_at: pl.Series, now: dt.datetime) -> Ages:
    """Returns the ages of memories; one that is dated later than now has age 0."""
    days = ((pl.lit(now) - pl.col("t")).dt.total_seconds() / _DAY_S).clip(lower_bound=0.0)
    dated = observed_at.drop_nulls().alias("t").to_frame().select(days.alias("days"))["days"]
    groups, below = [], 0
    for most, name in AGE_GROUPS:
        reached = len(dated) if most is None else int((dated <= most).sum())
        groups.append((name, reached - below))
        below = reached
    return Ages(tuple(groups), observed_at.null_count(), _rounded(dated.median()), _rounded(dated.quantile(0.9)))


def confidence(values: pl.Series) -> Confidence:
    """Returns the tenths and the mean of confidences; what has none is left out."""
    known = values.drop_nulls()
    tenths = (known * BINS).floor().clip(0, BINS - 1).cast(pl.Int64)
    counts = dict(tenths.value_counts().iter_rows()) if len(known) else {}
    return Confidence(tuple(counts.get(i, 0) for i in range(BINS)), _rounded(known.mean(), 3))


def _rounded(value: object, digits: int = 1) -> float | None:
    return round(float(value), digits) if isinstance(value, int | float) else None


# Proposals of the consolidation by kind and state, as the health report shows them.

ProposalCounts: TypeAlias = Mapping[str, Mapping[str, int]]
"""How many proposals there are, by kind and then by state."""


def proposal_counts(home: Home) -> ProposalCounts:
    """Returns the proposals of a home by kind and state."""
    counts = Counter((p.kind, p.state) for p in read_proposals(home.path).values())
    return {kind: {state: counts[kind, state] for state in STATES} for kind in KINDS}


# The health of a home's published build: one place computes what the page, notebook 5 and the Dagster UI show.

TABLES = tuple(dict.fromkeys((*HEALTH_TABLES, "document_relations", "facts", "nodes", "edges")))
USE_DAYS = 30
"""A memory counts as used when it was a result in the last 30 days."""
MAX_USERS = 50


@dataclass(frozen=True)
class UserSize:
    """What is stored of a user in one collection; `text_bytes` are of the texts of memories."""

    collection: str
    user_id: str
    memories: int
    latest: int
    text_bytes: int


@dataclass(frozen=True)
class Use:
    """What the usage log says of the latest memories: how often they were results, and how many in `USE_DAYS` days."""

    reads: int
    used: int
    used_share: float


@dataclass(frozen=True)
class HomeHealth:
    """The health of a build.

    Attributes:
        status: the gate's.
        total: of the whole home, and `collections` of each.
        growth: latest and retired memories by month of their date, (month, count), without undated ones.
        ages: of the latest memories.
        confidence: of memories, relations (NONE left out) and facts.
        review: relations that wait for a person, by reason.
        orphans: latest memories without a topic, entity or relation, and nodes without an edge.
        builds: this build and those before it, oldest first.
        sizes: the largest users; `users` is how many there are, `text_bytes` the size of all.
    """

    build_id: str
    created_at: str
    status: str
    total: MemoryHealth
    collections: Mapping[str, MemoryHealth]
    growth: tuple[tuple[str, int], ...]
    ages: Ages
    confidence: Mapping[str, Confidence]
    review: Mapping[str, int]
    orphans: Mapping[str, int]
    proposals: ProposalCounts
    use: Use
    builds: tuple[BuildNumbers, ...]
    sizes: tuple[UserSize, ...]
    users: int
    text_bytes: int

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers that have a history, by name: those of the manifest and of the tables."""
        found: dict[str, float | None] = {
            **(self.builds[-1].numbers if self.builds else {}),
            "undated": self.total["undated"],
            "duplicates": self.total["duplicates"],
            "disputes_open": self.review[DISPUTED] + self.review[LOW_TRUST],
            "to_review": sum(self.review.values()),
            **{f"orphans_{name}": count for name, count in self.orphans.items()},
            "median_age_days": self.ages.median_days,
            **{f"confidence_{name}": found.mean for name, found in self.confidence.items()},
            "used_share": self.use.used_share,
            "proposals_open": sum(states.get("open", 0) for states in self.proposals.values()),
            "users": self.users,
            "text_bytes": self.text_bytes,
        }
        return {name: float(value) for name, value in found.items() if value is not None}

    def to_json(self) -> JsonObject:
        """Returns all as JSON values, `numbers` included."""
        return {**asdict(self), "numbers": self.numbers}


def home_health(
    tables: Tables,
    collections: Sequence[str],
    builds: Sequence[BuildNumbers],
    reads: Mapping[str, tuple[int, int]],
    proposals: ProposalCounts,
    status: str,
    now: dt.datetime,
) -> HomeHealth:
    """Returns the health of a build.

    Args:
        tables: `TABLES` of the build, over all collections; one that is missing counts as empty.
        collections: names of its collections.
        builds: the build and those before it, oldest first; the last one is the build.
        reads: (reads, second since 1970 of the last) of memories, as the usage log has them.
        proposals: by kind and state.
        status: the gate's.
        now: what ages and use are counted from.
    """
    t = {name: tables[name] if name in tables else empty(name) for name in TABLES}
    versions = t["versions"].select("memory_id", "is_latest")
    memories = (
        t["memories"].join(versions, on="memory_id", how="left").with_columns(pl.col("is_latest").fill_null(True))
    )
    latest = memories.filter("is_latest")
    waiting = dict(review_table(t)["why"].value_counts().iter_rows())
    sizes = _sizes(memories)
    return HomeHealth(
        build_id=builds[-1].build_id if builds else "",
        created_at=builds[-1].created_at if builds else "",
        status=status,
        total=memory_health(t, now),
        collections={name: memory_health(collection_tables(t, name), now) for name in collections},
        growth=_home_health_growth(memories),
        ages=ages(latest["observed_at"], now),
        confidence={
            "memories": confidence(latest["confidence"]),
            "relations": confidence(t["relations"].filter(pl.col("label") != "NONE")["confidence"]),
            "facts": confidence(t["facts"].filter("is_latest")["confidence"]),
        },
        review={reason: waiting.get(reason, 0) for reason in REVIEW_REASONS},
        orphans=_orphans(t, latest),
        proposals=proposals,
        use=_use(latest, reads, now),
        builds=tuple(builds),
        sizes=tuple(sizes[:MAX_USERS]),
        users=len({s.user_id for s in sizes}),
        text_bytes=sum(s.text_bytes for s in sizes),
    )


def _home_health_growth(memories: pl.DataFrame) -> tuple[tuple[str, int], ...]:
    dated = memories.filter(pl.col("observed_at").is_not_null())
    months = dated.group_by(pl.col("observed_at").dt.strftime("%Y-%m").alias("month")).len().sort("month")
    return tuple(months.iter_rows())


def _orphans(t: Tables, latest: pl.DataFrame) -> dict[str, int]:
    related = t["relations"].filter(pl.col("label") != "NONE")
    ends = pl.concat([related.select(memory_id="newer_id"), related.select(memory_id="older_id")])
    edges = pl.concat([t["edges"].select(node_id="source_id"), t["edges"].select(node_id="target_id")])
    return {
        "without_topic": latest.join(t["topic_memories"], on="memory_id", how="anti").height,
        "without_entity": latest.join(t["mentions"], on="memory_id", how="anti").height,
        "without_relation": latest.join(ends, on="memory_id", how="anti").height,
        "nodes_without_edge": t["nodes"].join(edges, on="node_id", how="anti").height,
    }


def _use(latest: pl.DataFrame, reads: Mapping[str, tuple[int, int]], now: dt.datetime) -> Use:
    since = (now - dt.timedelta(days=USE_DAYS)).timestamp()
    found = [reads[i] for i in latest["memory_id"] if i in reads]
    used = sum(last >= since for _, last in found)
    return Use(sum(n for n, _ in found), used, round(used / latest.height, 6) if latest.height else 0.0)


def _sizes(memories: pl.DataFrame) -> list[UserSize]:
    rows = memories.group_by(*SCOPE[:2]).agg(
        pl.len().alias("memories"),
        pl.col("is_latest").sum().alias("latest"),
        pl.col("text").str.len_bytes().sum().alias("text_bytes"),
    )
    ordered = rows.sort(["text_bytes", *SCOPE[:2]], descending=[True, False, False])
    return [UserSize(**row) for row in ordered.iter_rows(named=True)]


CARDS = (
    # name of the number, title, what it means, how it is written
    ("latest", "Latest memories", "served, not retired", "count"),
    ("latest_share", "Latest share", "of all memories, the share that is latest", "share"),
    ("median_age_days", "Median age", "days since a latest memory was observed", "days"),
    ("confidence_memories", "Confidence", "mean of the latest memories", "share"),
    ("disputes_open", "Disputes", "both memories are latest, in palimpsest review", "count"),
    ("duplicates", "Duplicates", "latest that repeat another word for word", "count"),
    ("orphans_without_relation", "Without relation", "latest that nothing updates, extends or derives", "count"),
    ("used_share", "In use", "latest that were a result in 30 days", "share"),
    ("proposals_open", "Proposals", "of consolidate, with its own contradictions", "count"),
    ("text_bytes", "Size", "of the texts of all memories", "bytes"),
    ("seconds", "Build time", "seconds of all stages", "seconds"),
    ("cost", "Cost", "of calls of a language model", "money"),
)
_SHOWN_BUILDS = 8
_KIB = 1024.0
_FORMS = {
    "count": (",.0f", ""),
    "days": (",.0f", " d"),
    "seconds": (",.1f", " s"),
    "money": (".4f", ""),
    "share": (".3f", ""),
}


@dataclass(frozen=True)
class Card:
    """A number as it is written, its change since the build before, and its line over builds."""

    title: str
    explanation: str
    value: str
    change: str
    line: Spark | None


@dataclass(frozen=True)
class StageRow:
    """Seconds of a stage in the builds that are shown, oldest first, and the last one's share of its build."""

    stage: str
    seconds: tuple[float | None, ...]
    share: float


def health_html(health: HomeHealth) -> str:
    """Returns the page: no script, nothing fetched, every word escaped."""
    shown = health.builds[-_SHOWN_BUILDS:]
    return render_page(
        "health.html",
        health=health,
        cards=_cards(health),
        builds=shown,
        stages=_stages(shown),
        charted=_charts(health),
        sizes=[(s, format_number(s.text_bytes, "bytes")) for s in health.sizes],
    )


def format_number(value: float | None, form: str) -> str:
    """Returns a number as the page writes it; a dash where it is unknown."""
    if value is None:
        return "-"
    if form == "bytes":
        return _format_bytes(value)
    digits, unit = _FORMS[form]
    return f"{value:{digits}}{unit}"


def _format_bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < _KIB:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= _KIB
    return f"{value:.1f} GiB"


def _cards(health: HomeHealth) -> list[Card]:
    now, before = health.numbers, health.builds[:-1]
    cards = []
    for name, title, explanation, form in CARDS:
        series = [row.numbers.get(name) for row in before]
        known = [v for v in series if v is not None]
        value = now.get(name)
        change = "" if value is None or not known else _format_change(value - known[-1], form)
        points = [float("nan") if v is None else v for v in [*series, value]]
        cards.append(Card(title, explanation, format_number(value, form), change, spark(points)))
    return cards


def _format_change(change: float, form: str) -> str:
    text = format_number(abs(change), form)
    return "no change" if text == format_number(0, form) else f"{'+' if change > 0 else '-'}{text}"


def _charts(health: HomeHealth) -> list[tuple[str, str, "Chart"]]:
    """Returns caption, note and picture of what there is."""
    charts = []
    if health.growth:
        months = [Bar(month, count) for month, count in health.growth]
        charts.append(("Memories by month of their date", "", column_chart(months, "month", "memories")))
    if any(count for _, count in health.ages.groups) or health.ages.undated:
        charts.append(("Age of latest memories", _age_note(health.ages), ages_chart(health)))
    for name, found in health.confidence.items():
        if any(found.bins):
            tenths = [Bar(f"{i / BINS:.1f}", count) for i, count in enumerate(found.bins)]
            chart = column_chart(tenths, "confidence, from", name)
            charts.append((f"Confidence of {name}", f"mean {found.mean:.2f}", chart))
    return charts


def ages_chart(health: HomeHealth) -> "Chart":
    """Returns how old the latest memories are."""
    groups = [*health.ages.groups, ("no date", health.ages.undated)]
    return column_chart([Bar(name, count) for name, count in groups], "observed within a", "latest memories")


def _age_note(found: Ages) -> str:
    if found.median_days is None or found.p90_days is None:
        return ""
    return f"half are {found.median_days:.0f} days old or less, nine of ten {found.p90_days:.0f}"


def _stages(builds: tuple[BuildNumbers, ...]) -> list[StageRow]:
    last = builds[-1].seconds if builds else {}
    total = sum(last.values()) or 1.0
    names = sorted({name for b in builds for name in b.seconds}, key=lambda n: (-last.get(n, 0.0), n))
    return [StageRow(n, tuple(b.seconds.get(n) for b in builds), last.get(n, 0.0) / total) for n in names]
