"""The pictures of report, health page and notebooks, by Altair: few kinds, one palette, counts with whole ticks.

The text of a picture is data and never markup. vl-convert draws it as SVG without browser or network; a page colours
it by its own light or dark palette.
"""

import html
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from palimpsest.core.ids import JsonObject
from palimpsest.core.imports import import_with_json_schema
from palimpsest.query.request.types import shorten_text

if TYPE_CHECKING:
    import altair as alt

    Chart = alt.Chart | alt.LayerChart | alt.FacetChart

PALETTE: Mapping[str, tuple[str, str]] = {
    # name of the CSS variable: in light, in dark; each has a contrast of 3 at least on the card, texts one of 4.5
    "page": ("#f6f7f9", "#12151a"),
    "card": ("#ffffff", "#1b2027"),
    "ink": ("#1b2028", "#e7eaee"),
    "soft": ("#596270", "#a3acb9"),
    "line": ("#dde1e7", "#323944"),
    "tint": ("#eaf1fc", "#222d3f"),
    "accent": ("#2867c7", "#79abff"),
    "accent2": ("#0f8a7e", "#4cc9bb"),
    "accent3": ("#8a5cc7", "#bd9bf0"),
    "warn": ("#8a5a00", "#e8b65a"),
    "bad": ("#b3261e", "#ff8a80"),
    "good": ("#1a7a45", "#62cf91"),
    "pink": ("#b8387a", "#f08cc0"),
    "olive": ("#66750f", "#b5c85a"),
}
PHONE = 300
"""Width in pixels of a picture that a phone shows in its own size."""
_LIGHT = {name: light for name, (light, _) in PALETTE.items()}
_SERIES = [_LIGHT[n] for n in ("accent", "accent2", "accent3", "warn", "bad", "pink", "olive", "good", "soft", "ink")]
_DASHES = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [1, 3]]
_WORDS: dict[str, Any] = {
    "labelColor": _LIGHT["soft"],
    "titleColor": _LIGHT["soft"],
    "labelFontSize": 11,
    "titleFontSize": 11,
}
_TITLE = {"color": _LIGHT["ink"], "subtitleColor": _LIGHT["soft"], "anchor": "start", "fontSize": 13}
_CONFIG: dict[str, Any] = {
    "font": "Arial, Liberation Sans, sans-serif",  # as wide as vl-convert measures it
    "background": _LIGHT["card"],
    "view": {"stroke": None},
    "range": {"category": _SERIES},
    "axis": _WORDS
    | {"titleFontWeight": "normal", "gridColor": _LIGHT["line"], "domainColor": _LIGHT["line"]}
    | {"tickColor": _LIGHT["line"], "labelLimit": 0, "titleLimit": 0},
    "legend": _WORDS
    | {"orient": "bottom", "labelLimit": 0, "columnPadding": 8}
    | {"layout": {"bottom": {"anchor": "start", "direction": "vertical", "bounds": "full"}}},
    "text": {"color": _LIGHT["ink"], "fontSize": 11},
}
_VEGA_LITE = "5.20"
"""What JupyterLab draws by itself; vl-convert draws the same."""
_SHARE: dict[str, Any] = {"format": ".1f", "values": [0, 0.2, 0.4, 0.6, 0.8, 1]}
_ROW, _FRAME = 17, 70  # pixels: of a row, and of what is around the rows
_MAX_COLUMNS = 24
_MAX_COLUMN, _MARGIN = 26, 60  # pixels: the widest column, and what an axis takes
_ARC_POINTS = 6
_BINS = 30
_NAME_CHARS, _LABEL_CHARS = 26, 32  # vl-convert measures each letter that an axis would cut off by itself
_OTHER = "other"


@dataclass(frozen=True)
class Bar:
    """A value with its name; bars of one name are side by side. `before` is drawn as a mark across the bar."""

    name: str
    value: float
    series: str = ""
    before: float | None = None


@dataclass(frozen=True)
class Interval:
    """A value between two others, such as a change with its interval or p50, p95 and p99."""

    name: str
    low: float
    value: float
    high: float


@dataclass(frozen=True)
class ArcNode:
    """A row of an arc diagram; `size` is from 0 to 1, `tooltip` is shown where a page runs scripts."""

    node_id: str
    label: str
    kind: str
    size: float = 0.5
    tooltip: str = ""


@dataclass(frozen=True)
class ArcLink:
    """A link between two nodes of an arc diagram."""

    source_id: str
    target_id: str
    kind: str
    tooltip: str = ""


def palette_css(selector: str = ":root") -> str:
    """Returns the palette as variables of CSS, in light and in dark."""
    light, dark = (";".join(f"--{n}:{colors[at]}" for n, colors in PALETTE.items()) for at in (0, 1))
    return f"{selector}{{{light}}}@media (prefers-color-scheme:dark){{{selector}{{{dark}}}}}"


def to_svg(chart: "Chart", label: str, *, alone: bool = False) -> str:
    """Returns a picture as an SVG element that needs neither script nor network.

    Args:
        chart: the picture.
        label: what it shows, for those who do not see it.
        alone: whether the picture brings its palette, for a file; in a page the page has it.
    """
    import vl_convert

    drawn = vl_convert.vegalite_to_svg(to_spec(chart), vl_version=_VEGA_LITE)
    style = f"<style>{palette_css('svg')}</style>" if alone else ""
    named = f'<svg role="img" aria-label="{html.escape(label)}" '
    head, body = drawn.removeprefix("<svg ").replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "").split(">", 1)
    for name, color in _LIGHT.items():  # a text has no colour in quotes: those are escaped
        body = body.replace(f'="{color}"', f'="var(--{name},{color})"')
    return f"{named}{head}>{style}{body}"


def to_spec(chart: "Chart", width: int | None = None) -> JsonObject:
    """Returns a picture as Vega-Lite, in another width where one is named; what is pointed at is explained."""
    spec: dict[str, Any] = chart.to_dict()
    spec["width"] = width or spec["width"]
    title = _TITLE | {"limit": spec["width"] - 10}
    return spec | {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": _CONFIG | {"title": title}}


def column_chart(bars: Sequence[Bar], name: str, unit: str) -> "Chart":
    """Returns counts side by side, those of one name on top of one another; of more than 24 names the last.

    Args:
        bars: in order.
        name: of what the columns are of.
        unit: of the counts.
    """
    alt = _altair()
    names = list(dict.fromkeys(b.name for b in bars))[-_MAX_COLUMNS:]
    room = 0.8 * (PHONE - _MARGIN) / max(1, len(names))
    long = max(map(len, names), default=0) * 6 > room
    labels = alt.Axis(title=name, labelAngle=-90 if long else 0, labelOverlap=True, grid=False)
    shown = [b for b in bars if b.name in names]
    most = max((sum(b.value for b in shown if b.name == n) for n in names), default=0.0)
    return _framed(
        alt.Chart(_rows(shown))
        .mark_bar(width=max(2.0, min(_MAX_COLUMN, room)))
        .encode(
            alt.X("name:N", sort=None, axis=labels),
            alt.Y("value:Q", stack=True, axis=alt.Axis(title=unit, **_whole(most))),
            _colors([b.series for b in bars]),
            tooltip=["name:N", "series:N", "value:Q"],
        ),
        180,
    )


def bar_chart(bars: Sequence[Bar], unit: str, *, form: str = ",d", name: str = "", chars: int = _NAME_CHARS) -> "Chart":
    """Returns bars under one another with their values, those of one name together.

    Args:
        bars: in order.
        unit: of the values.
        form: how they are written, in d3's notation: `,d` for counts, `.3f` for shares.
        name: of what the bars are of.
        chars: of a name that are shown.
    """
    alt = _altair()
    series = list(dict.fromkeys(b.series for b in bars))
    top = max((max(b.value, b.before or 0.0) for b in bars), default=0.0) or 1.0
    share = form == ".3f" and top <= 1
    ticks: dict[str, Any] = _SHARE if share else _whole(top) if form == ",d" else {"tickCount": 4}
    axis = alt.Axis(title=unit, **ticks)
    y = alt.Y("name:N", sort=None, axis=alt.Axis(title=name or None, grid=False, ticks=False, domain=False))
    offset = [alt.YOffset("series:N", sort=None)] if len(series) > 1 else []
    scale = alt.Scale(domain=[0, (1.0 if share else top) * 1.22], nice=False)  # with room for the values
    tips = [alt.Tooltip("name:N"), alt.Tooltip("series:N"), alt.Tooltip("value:Q", format=form)]
    x = alt.X("value:Q", axis=axis, scale=scale)
    base = alt.Chart(_rows(bars, chars)).encode(y, *offset)
    layers = [
        base.mark_bar().encode(x, _colors(series, columns=1), tooltip=tips),
        base.mark_text(align="left", dx=4).encode(alt.X("end:Q"), alt.Text("value:Q", format=form)),
    ]
    if any(b.before is not None for b in bars):
        for color, thickness in (("card", 5), ("ink", 2)):  # seen on a bar in light and in dark
            tick = base.mark_tick(color=_LIGHT[color], thickness=thickness, size=_ROW - 6)
            layers.append(tick.encode(alt.X("before:Q"), tooltip=[alt.Tooltip("before:Q", format=form)]))
    return _framed(alt.layer(*layers), _FRAME + _ROW * len(bars) + 8 * (len(bars) // max(1, len(series))))


def interval_chart(rows: Sequence[Interval], unit: str, *, form: str = ".1f", zero: bool = False) -> "Chart":
    """Returns a line from low to high with a point at the value for each row; `zero` draws a line at 0."""
    alt = _altair()
    data = alt.Data(values=[asdict(r) for r in rows])
    y = alt.Y("name:N", sort=None, axis=alt.Axis(title=None, grid=False, ticks=False, domain=False))
    x = alt.X("low:Q", axis=alt.Axis(title=unit, tickCount=4), scale=alt.Scale(zero=True, nice=True))
    tips = [alt.Tooltip(f"{field}:Q", format=form) for field in ("low", "value", "high")]
    base = alt.Chart(data).encode(y, tooltip=tips)
    layers = [
        base.mark_rule(color=_LIGHT["accent"], strokeWidth=3).encode(x, alt.X2("high:Q")),
        base.mark_point(color=_LIGHT["accent"], filled=True, size=60, opacity=1).encode(alt.X("value:Q")),
    ]
    if zero:
        line = alt.Chart(alt.Data(values=[{"at": 0}])).mark_rule(color=_LIGHT["ink"], strokeDash=[2, 2])
        layers.insert(0, line.encode(alt.X("at:Q")))
    return _framed(alt.layer(*layers), _FRAME + _ROW * len(rows))


def histogram_chart(values: Mapping[str, Sequence[float]], name: str, unit: str) -> "Chart":
    """Returns how many values are in each of some thirty bins, those of all series on top of one another."""
    alt = _altair()
    step = max(1, math.ceil(max((v for found in values.values() for v in found), default=0) / _BINS))
    counts = {series: Counter(int(v // step) for v in found) for series, found in sorted(values.items())}
    rows = [
        {"series": series, "from": at * step, "to": (at + 1) * step, "count": count}
        for series, found in counts.items()
        for at, count in sorted(found.items())
    ]
    total: Counter[int] = sum(counts.values(), Counter())
    return _framed(
        alt.Chart(alt.Data(values=rows))
        .mark_bar(binSpacing=1)
        .encode(
            alt.X("from:Q", bin="binned", axis=alt.Axis(title=name, grid=False, format=",d")),
            alt.X2("to:Q"),
            alt.Y("count:Q", stack=True, axis=alt.Axis(title=unit, **_whole(max(total.values(), default=0)))),
            _colors(list(counts)),
            tooltip=["series:N", "from:Q", "to:Q", "count:Q"],
        ),
        220,
    )


def reliability_chart(bins: Sequence[tuple[float, float, int]]) -> "Chart":
    """Returns the share of labels that are right by their confidence: (confidence, share, labels) of each bin."""
    alt = _altair()
    rows = [{"confidence": c, "right": r, "labels": n} for c, r, n in bins]
    line = alt.Chart(alt.Data(values=[{"at": 0}, {"at": 1}])).mark_line(color=_LIGHT["soft"], strokeDash=[3, 3])
    axes = (alt.Axis(title=title, **_SHARE) for title in ("confidence of the label", "share that is right"))
    x, y = (alt.X("at:Q", axis=next(axes)), alt.Y("at:Q", axis=next(axes)))
    points = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, opacity=1, color=_LIGHT["accent"])
    size = alt.Size("labels:Q", legend=alt.Legend(title="labels", format=",d", values=_sizes(n for _, _, n in bins)))
    dots = points.encode(alt.X("confidence:Q"), alt.Y("right:Q"), size, tooltip=["confidence:Q", "right:Q", "labels:Q"])
    return _framed(alt.layer(line.encode(x, y), dots), 260)


def arc_chart(nodes: Sequence[ArcNode], links: Sequence[ArcLink], node: str, link: str) -> "Chart":
    """Returns nodes as rows, every one with its label, and the links between them as arcs beside the rows.

    Args:
        nodes: in order from the top.
        links: between these.
        node: what a node is, the title of their legend.
        link: what a link is, the title of theirs; all but the four most frequent kinds are `other`.
    """
    alt = _altair()
    at = {n.node_id: i for i, n in enumerate(nodes)}
    labels = _labels([(n.label, n.kind) for n in nodes], _LABEL_CHARS)
    known = [kind for kind, _ in Counter(x.kind for x in links).most_common(len(_DASHES) - 1)]
    dots = [asdict(n) | {"label": text, "place": 0} for n, text in zip(nodes, labels, strict=True)]
    points = [p for i, x in enumerate(links) for p in _arc(i, x, at, x.kind if x.kind in known else _OTHER)]
    rows = alt.Axis(title=None, orient="right", grid=False, ticks=False, domain=False)
    across = alt.Scale(domain=[1, -0.06])
    shades = [_LIGHT[n] for n in ("soft", "accent", "bad", "good", "warn")]
    kinds = [*known, *([_OTHER] if any(x.kind not in known for x in links) else [])]
    found = list(dict.fromkeys(n.kind for n in nodes))
    rounds = alt.Legend(title=node, symbolType="circle", columns=2)
    legend: dict[str, Any] = {"title": link, "symbolType": "stroke", "symbolSize": 200, "columns": 2}
    arcs = (
        alt.Chart(alt.Data(values=points))
        .mark_line(opacity=0.8, strokeWidth=1.3, interpolate="natural")
        .encode(
            alt.X("x:Q", axis=None, scale=across),
            alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-0.5, max(1, len(nodes)) - 0.5], reverse=True, nice=False)),
            alt.Detail("link:N"),
            alt.Order("step:Q"),
            alt.Stroke("kind:N", scale=alt.Scale(domain=kinds, range=shades), legend=alt.Legend(**legend)),
            alt.StrokeDash("kind:N", scale=alt.Scale(domain=kinds, range=_DASHES), legend=alt.Legend(**legend)),
            tooltip=["kind:N", "tooltip:N"],
        )
    )
    marks = (
        alt.Chart(alt.Data(values=dots))
        .mark_circle(opacity=1)
        .encode(
            alt.X("place:Q", axis=None, scale=across),
            alt.Y("label:N", sort=None, axis=rows, scale=alt.Scale(type="point", padding=0.5)),
            alt.Fill("kind:N", scale=alt.Scale(domain=found), legend=rounds),
            alt.Size("size:Q", scale=alt.Scale(domain=[0, 1], range=[30, 160]), legend=None),
            tooltip=["label:N", "kind:N", "tooltip:N"],
        )
    )
    return _framed(alt.layer(arcs, marks).resolve_scale(y="independent"), 110 + (_ROW + 1) * len(nodes))


def _arc(number: int, link: ArcLink, at: Mapping[str, int], kind: str) -> list[dict[str, Any]]:
    """Returns the points of half an ellipse from row to row, as wide as the rows are apart."""
    top, low = at[link.source_id], at[link.target_id]
    wide = 0.12 + 0.88 * math.sqrt(abs(low - top) / max(1, len(at) - 1))
    angles = [math.pi * step / _ARC_POINTS for step in range(_ARC_POINTS + 1)]
    return [
        {
            "x": round(wide * math.sin(a), 3),
            "y": round((top + low) / 2 + (top - low) / 2 * math.cos(a), 3),
            "step": step,
            "link": number,
            "kind": kind,
            "tooltip": link.tooltip,
        }
        for step, a in enumerate(angles)
    ]


def _labels(names: Sequence[tuple[str, str]], most: int) -> list[str]:
    """Returns (name, kind) as labels of at most some characters: of equal ones each with its kind, then a number."""
    short = [shorten_text(name, most) for name, _ in names]
    counts, seen = Counter(short), Counter[str]()
    found = []
    for label, (_, kind) in zip(short, names, strict=True):
        label = label if counts[label] == 1 or not kind else f"{label} ({kind})"
        seen[label] += 1
        found.append(label if seen[label] == 1 else f"{label} {seen[label]}")
    return found


def _sizes(counts: Any) -> list[int]:
    found = sorted(set(counts))
    return [found[0], found[-1]] if len(found) > 1 else found


def _rows(bars: Sequence[Bar], chars: int = _NAME_CHARS) -> Any:
    alt = _altair()
    names = list(dict.fromkeys(b.name for b in bars))
    labels = dict(zip(names, _labels([(name, "") for name in names], chars), strict=True))
    return alt.Data(
        values=[asdict(b) | {"name": labels[b.name], "end": max(b.value, b.before or 0.0)} for b in bars],
    )


def _whole(most: float) -> dict[str, Any]:
    """Returns an axis of counts up to `most`: three to seven ticks, each a whole number."""
    rough = max(1.0, most / 2.5)
    power = 10 ** int(math.log10(rough))
    step = max(times * power for times in (1, 2, 5) if times * power <= rough)
    return {"format": ",d", "values": list(range(0, math.ceil(most) + step, step))}


def _colors(names: Sequence[str], columns: int = 3) -> Any:
    """Returns the colour of each series, with a legend where there are several; one series has the first colour."""
    alt = _altair()
    series = list(dict.fromkeys(names))
    legend = alt.Legend(title=None, columns=columns) if len(series) > 1 else None
    return alt.Color("series:N", sort=None, scale=alt.Scale(domain=series), legend=legend)


def _framed(chart: "Chart", height: int) -> "Chart":
    """Returns a picture whose width, axes and legend included, is that of a phone."""
    alt = _altair()
    fit = alt.AutoSizeParams(type="fit", contains="padding")
    return chart.properties(width=PHONE, height=height, autosize=fit, padding=4)


def _altair() -> Any:
    return import_with_json_schema("altair")
