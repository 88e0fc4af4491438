"""A plotly figure as a still SVG, for pages that run no script: bars, histograms, points with intervals, lines, flows.

Plotly's own export needs a browser. What is drawn here are the kinds of figure that `eval.notebook` makes, plainly: the
interactive figure stays the better one.
"""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

# Elements of a still SVG: rectangles, lines, circles and texts, all of whose words are escaped.

LETTER = 6.6  # mean pixels of a letter at the size of 12
_LABEL_SIZE = 9
_RADIUS = 5.0

Box = tuple[float, float, float, float]  # left, top, right, bottom


class Axis:
    """Maps values to pixels, ends included."""

    def __init__(self, low: float, high: float, start: float, end: float):
        self.low, self.high, self._start, self._end = low, high, start, end

    def at(self, value: float) -> float:
        """Returns the pixel of a value."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self._start + share * (self._end - self._start)


class PlacedLabels:
    """Labels next to points, none of them over another label, over a point or outside the picture."""

    def __init__(self, width: float, points: Sequence[tuple[float, float]]):
        self._width = width
        self._taken: list[Box] = [(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for x, y in points]

    def add(self, x: float, y: float, label: str) -> str:
        """Returns the label right, left, above or below a point, wherever it is free; empty where nothing is."""
        wide, tall = len(label) * LETTER * _LABEL_SIZE / 12, _LABEL_SIZE
        for left, bottom in (
            (x + 8, y + 4),
            (x - 8 - wide, y + 4),
            (x - wide / 2, y - 8),
            (x - wide / 2, y + 8 + tall),
        ):
            box = (left, bottom - tall, left + wide, bottom)
            if left >= 0 and left + wide <= self._width and not any(_overlap(box, other) for other in self._taken):
                self._taken.append(box)
                return text(left, bottom, label, size=_LABEL_SIZE, halo=True)
        return ""


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def rect(x: float, y: float, width: float, height: float, color: str, tooltip: str) -> str:
    """Returns a filled rectangle."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect {place} fill="{escape(color)}"><title>{escape(tooltip)}</title></rect>'


def circle(x: float, y: float, color: str, tooltip: str) -> str:
    """Returns a point."""
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:.0f}"'
    return f'<circle {place} fill="{escape(color)}"><title>{escape(tooltip)}</title></circle>'


def line(x0: float, y0: float, x1: float, y1: float, color: str, dash: bool = False) -> str:
    """Returns a line."""
    dashes = ' stroke-dasharray="3 3"' if dash else ""
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{escape(color)}"{dashes}/>'


def text(
    x: float, y: float, words: str, anchor: str = "start", size: int = 12, rotated: bool = False, halo: bool = False
) -> str:
    """Returns a text, nothing where it is empty; `rotated` reads upwards, `halo` keeps it readable over lines."""
    if not words:
        return ""
    look = f'text-anchor="{anchor}" font-family="sans-serif" font-size="{size}"'
    if rotated:
        look += f' transform="rotate(-90 {x:.1f} {y:.1f})"'
    if halo:
        look += ' stroke="white" stroke-width="3" paint-order="stroke"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(words)}</text>'


def plain(marked_up: object) -> str:
    """Returns plotly's marked-up text as plain text: entities are read, tags are dropped."""
    return html.unescape(re.sub(r"<[^<>]*+>", " ", str(marked_up))).strip()


def escape(words: str) -> str:
    """Returns a text that is no markup."""
    return html.escape(words)


# A plotly figure as a still SVG, for pages that run no script: bars, histograms, points with intervals, lines, flows.

WIDTH, HEIGHT = 820, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 60, 60
_COLORS = ("#2867c7", "#0f8a7e", "#8a5cc7", "#c7622e", "#33415c")
_BINS = 40
_MAX_LABEL_CHARS = 24
_MAX_TITLE_CHARS = 100
_FLOW_LABELS = 340  # pixels right of the last column of a flow

Trace = Mapping[str, Any]  # of plotly's JSON
Layout = Mapping[str, Any]


def svg_of(figure: Any) -> str:
    """Returns a figure as an SVG document that needs neither script nor network.

    Args:
        figure: a plotly figure of bar, histogram, scatter or sankey traces.

    Raises:
        ValueError: a trace is of another kind.
    """
    drawn = figure.to_plotly_json()
    layout, traces = drawn.get("layout", {}), drawn.get("data", [])
    height = int(layout.get("height") or HEIGHT)
    kinds = {t.get("type", "scatter") for t in traces}
    if kinds <= {"bar", "histogram"}:
        body = _bars(traces, layout, height)
    elif kinds == {"scatter"}:
        body = _points(traces, layout, height)
    elif kinds == {"sankey"}:
        body = _flows(traces[0], height)
    else:
        raise ValueError(f"cannot draw traces of type {sorted(kinds)}")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    background = f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
    return "\n".join([head, background, *_title(layout), *body, "</svg>"])


def _title(layout: Layout) -> list[str]:
    """Returns the title, with what follows a line break in smaller letters under it."""
    first, *rest = re.split(r"<br ?/?>", str(layout.get("title", {}).get("text", "")))
    title = plain(first)
    title = title if len(title) <= _MAX_TITLE_CHARS else title[: _MAX_TITLE_CHARS - 1] + "…"
    return [text(10, 24, title, size=15), *(text(10, 42, plain(r), size=11) for r in rest[:1])]


def _bars(traces: Sequence[Trace], layout: Layout, height: int) -> list[str]:
    """Bars side by side for each name; horizontal ones are drawn one under the other."""
    horizontal = any(t.get("orientation") == "h" for t in traces)
    series = [_histogram_counts(t, traces) if t.get("type") == "histogram" else _bar_values(t) for t in traces]
    names = list(dict.fromkeys(n for values in series for n in values))
    largest = max((v for values in series for v in values.values()), default=0) or 1
    legend = [str(t["name"]) for t in traces if t.get("name")]
    out = _legend(legend, [_COLORS[i % len(_COLORS)] for i in range(len(legend))])
    left = min(320, int(max((len(n) for n in names), default=0) * LETTER) + 16) if horizontal else _LEFT
    across, down = WIDTH - left - _RIGHT, height - _TOP - _BOTTOM
    room = (down if horizontal else across) / max(1, len(names))
    thick = room * 0.8 / max(1, len(series))
    every = 1 if horizontal else max(1, len(names) * 44 // across)
    for i, name in enumerate(names):
        for j, values in enumerate(series):
            value = values.get(name, 0)
            length = (across - 50 if horizontal else down) * value / largest
            start = i * room + 0.1 * room + j * thick
            x, y = (left, _TOP + start) if horizontal else (left + start, _TOP + down - length)
            width, tall = (length, thick) if horizontal else (thick, length)
            out.append(rect(x, y, width, tall, _COLORS[j % len(_COLORS)], f"{name}: {_format_number(value)}"))
            if horizontal:
                out.append(text(left + length + 4, _TOP + start + thick / 2 + 4, _format_number(value)))
        if horizontal:
            out.append(text(left - 6, _TOP + (i + 0.5) * room + 4, name, anchor="end"))
        elif i % every == 0:
            out.append(text(left + (i + 0.5) * room, height - _BOTTOM + 16, name, anchor="middle"))
    if not horizontal:
        out += _scale(largest, left, down)
    return out + _axis_titles(layout, height)


def _bar_values(trace: Trace) -> dict[str, float]:
    names, values = ("y", "x") if trace.get("orientation") == "h" else ("x", "y")
    return {plain(n): float(v) for n, v in zip(_list(trace.get(names)), _list(trace.get(values)), strict=True)}


def _histogram_counts(trace: Trace, traces: Sequence[Trace]) -> dict[str, float]:
    """Returns how many values of a histogram are in each of the bins that all its traces share, by their start."""
    every = [float(v) for t in traces for v in _list(t.get("x"))] or [0.0]
    edges = np.linspace(min(every), max(every) + 1, _BINS + 1)
    counts, _ = np.histogram([float(v) for v in _list(trace.get("x"))], edges)
    return {f"{edge:.0f}": float(n) for edge, n in zip(edges, counts, strict=False)}


def _points(traces: Sequence[Trace], layout: Layout, height: int) -> list[str]:
    named = any(isinstance(y, str) for t in traces for y in _list(t.get("y")))
    rows = list(dict.fromkeys(str(y) for t in traces for y in _list(t.get("y")))) if named else []
    values = [v for t in traces for v in _extent(t)] or [0.0]
    left = int(max((len(r) for r in rows), default=0) * LETTER) + 24 if named else _LEFT
    across = Axis(min([*values, 0.0] if named else values), max([*values, 0.0] if named else values), left, WIDTH - 40)
    heights = [float(y) for t in traces for y in _list(t.get("y")) if y is not None] if not named else []
    down = Axis(min(heights, default=0.0), max(heights, default=1.0), height - 30, _TOP + 10)
    colors = [_color(t, i) for i, t in enumerate(traces)]
    out = _legend([str(t["name"]) for t in traces if t.get("name")], colors)

    def y_of(y: Any) -> float:
        return _TOP + (rows.index(str(y)) + 0.5) * (height - _TOP - _BOTTOM) / len(rows) if named else down.at(float(y))

    for trace, color in zip(traces, colors, strict=True):
        out += _trace(trace, color, across, y_of)
    out += _point_labels(traces, across, y_of)
    if named:
        out += [text(left - 10, y_of(row) + 4, row, anchor="end") for row in rows]
        out.append(line(across.at(0.0), _TOP, across.at(0.0), height - _BOTTOM, "#888", dash=True))
        out += [
            text(across.at(v), height - _BOTTOM + 16, f"{v:+.3f}", anchor="middle")
            for v in sorted({across.low, 0.0, across.high})
        ]
        out += _axis_titles(layout, height)
    return out


def _trace(trace: Trace, color: str, across: Axis, y_of: Callable[[Any], float]) -> list[str]:
    xs, ys = _list(trace.get("x")), _list(trace.get("y"))
    if trace.get("mode") == "lines":
        ends = list(zip(xs, ys, strict=True))
        return [
            line(across.at(a), y_of(b), across.at(c), y_of(d), color)
            for (a, b), (c, d) in pairwise(ends)
            if None not in (a, b, c, d)
        ]
    out = []
    error = trace.get("error_x") or {}
    above, below = _list(error.get("array")), _list(error.get("arrayminus"))
    labels = _list(trace.get("text"))
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if i < len(above):
            out.append(line(across.at(x - below[i]), y_of(y), across.at(x + above[i]), y_of(y), color))
        out.append(circle(across.at(x), y_of(y), color, plain(labels[i]) if i < len(labels) else ""))
    return out


def _point_labels(traces: Sequence[Trace], across: Axis, y_of: Callable[[Any], float]) -> list[str]:
    """Returns the labels of points, over all lines; one that has no free place is shown by pointing at it only."""
    places: list[tuple[float, float, str]] = []
    for trace in traces:
        points = zip(_list(trace.get("x")), _list(trace.get("y")), _list(trace.get("text")), strict=False)
        places += [(across.at(x), y_of(y), plain(label)) for x, y, label in points]
    placed = PlacedLabels(WIDTH, [(x, y) for x, y, _ in places])
    out = []
    for x, y, label in places:
        short = label if len(label) <= _MAX_LABEL_CHARS else label[: _MAX_LABEL_CHARS - 1] + "…"
        out.append(placed.add(x, y, short))
    return [element for element in out if element]


def _flows(trace: Trace, height: int) -> list[str]:
    """Nodes where the figure puts them, and a band from node to node, as wide as its value."""
    nodes, links = trace["node"], trace["link"]
    xs = [float(x) * (WIDTH - _FLOW_LABELS) + 20 for x in _list(nodes["x"])]
    ys = [float(y) * (height - 130) + 90 for y in _list(nodes["y"])]
    values = [float(v) for v in _list(links["value"])]
    widest = max(values, default=1.0) or 1.0
    out = []
    for a, b, value, color in zip(
        _list(links["source"]), _list(links["target"]), values, _list(links["color"]), strict=True
    ):
        x0, x1, y0, y1 = xs[a] + 14, xs[b], ys[a], ys[b]
        middle = (x0 + x1) / 2
        path = f"M{x0:.1f},{y0:.1f} C{middle:.1f},{y0:.1f} {middle:.1f},{y1:.1f} {x1:.1f},{y1:.1f}"
        wide = max(1.0, 26 * value / widest)
        out.append(f'<path d="{path}" fill="none" stroke="{escape(str(color))}" stroke-width="{wide:.1f}"/>')
    for x, y, label, color in zip(xs, ys, _list(nodes["label"]), _list(nodes["color"]), strict=True):
        out.append(rect(x, y - 14, 14, 28, str(color), plain(label)))
        out.append(text(x + 18, y + 4, plain(label), size=10, halo=True))
    return out


def _extent(trace: Trace) -> list[float]:
    """Returns the ends of the intervals of a trace, or its values where it has none."""
    xs, error = _list(trace.get("x")), trace.get("error_x") or {}
    above, below = _list(error.get("array")) or [0.0] * len(xs), _list(error.get("arrayminus")) or [0.0] * len(xs)
    ends = [(x - b, x + a) for x, a, b in zip(xs, above, below, strict=False) if x is not None]
    return [v for pair in ends for v in pair]


def _scale(largest: float, left: float, down: float) -> list[str]:
    out = []
    for share in (0.0, 0.5, 1.0):
        y = _TOP + down * (1 - share)
        label = text(left - 6, y + 4, _format_number(largest * share), anchor="end")
        out += [line(left, y, WIDTH - _RIGHT, y, "#ddd"), label]
    return out


def _axis_titles(layout: Layout, height: int) -> list[str]:
    x = plain(layout.get("xaxis", {}).get("title", {}).get("text", ""))
    y = plain(layout.get("yaxis", {}).get("title", {}).get("text", ""))
    middle = (height - _BOTTOM + _TOP) / 2
    return [text(WIDTH / 2, height - 16, x, anchor="middle"), text(14, middle, y, anchor="middle", rotated=True)]


def _legend(names: Sequence[str], colors: Sequence[str]) -> list[str]:
    out, x = [], 10.0
    for name, color in zip(names, colors, strict=False):
        out += [rect(x, 34, 10, 10, color, ""), text(x + 14, 43, plain(name))]
        x += 30 + len(name) * LETTER
    return out


def _color(trace: Trace, position: int) -> str:
    color = (trace.get("marker") or {}).get("color")
    return color if isinstance(color, str) else _COLORS[position % len(_COLORS)]


def _list(values: Any) -> list[Any]:
    if values is None:
        return []
    if isinstance(values, Mapping):  # plotly packs arrays of numbers
        import base64

        return list(np.frombuffer(base64.b64decode(values["bdata"]), np.dtype(values["dtype"])))
    return list(values)


def _format_number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"
