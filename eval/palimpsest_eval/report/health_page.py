"""The page of a home's health: what `home_health` computed as cards, charts and tables; nothing is computed twice."""

from dataclasses import dataclass

from palimpsest_eval.report.charts import ColumnChart, Spark, columns, spark
from palimpsest_eval.report.home_health import BINS, BuildNumbers, HomeHealth
from palimpsest_eval.report.page import render_page

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
_SHOWN_BUILDS, _SHOWN_MONTHS = 8, 24
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
        growth=_growth(health),
        ages=columns([*health.ages.groups, ("no date", health.ages.undated)]),
        confidence={name: _tenths(found.bins) for name, found in health.confidence.items()},
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


def _growth(health: HomeHealth) -> ColumnChart | None:
    return columns([(f"{month[2:]}", count) for month, count in health.growth[-_SHOWN_MONTHS:]], 1080.0)


def _tenths(bins: tuple[int, ...]) -> ColumnChart | None:
    return columns([(f"{i / BINS:.1f}", count) for i, count in enumerate(bins)])


def _stages(builds: tuple[BuildNumbers, ...]) -> list[StageRow]:
    last = builds[-1].seconds if builds else {}
    total = sum(last.values()) or 1.0
    names = sorted({name for b in builds for name in b.seconds}, key=lambda n: (-last.get(n, 0.0), n))
    return [StageRow(n, tuple(b.seconds.get(n) for b in builds), last.get(n, 0.0) / total) for n in names]
