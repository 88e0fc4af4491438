"""A plotly figure as a still SVG, for pages that run no script: bars, histograms, points with intervals, lines, flows.

Plotly's own export needs a browser. What is drawn here are the kinds of figure that `eval.plots` and `eval.explained`
make, plainly: the interactive figure stays the better one.
"""

import html
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

WIDTH, HEIGHT = 820, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 60, 60
_COLOURS = ("#2867c7", "#0f8a7e", "#8a5cc7", "#c7622e", "#33415c")
_FONT = 'font-family="sans-serif" font-size="12"'
_LETTER = 6.6  # pixels that a letter of a label takes, about
_BINS = 40


def svg_of(figure: Any) -> str:
    """Returns a figure as an SVG document that needs neither script nor network.

    Args:
        figure: a plotly figure of bar, histogram, scatter or sankey traces.

    Raises:
        ValueError: a trace is of another kind.
    """
    told = figure.to_plotly_json()
    layout, traces = told.get("layout", {}), told.get("data", [])
    height = int(layout.get("height") or HEIGHT)
    kinds = {t.get("type", "scatter") for t in traces}
    if kinds <= {"bar", "histogram"}:
        body = _bars(traces, layout, height)
    elif kinds == {"scatter"}:
        body = _points(traces, layout, height)
    elif kinds == {"sankey"}:
        body = _flows(traces[0], height)
    else:
        raise ValueError(f"no still picture of traces {sorted(kinds)}")
    title = _plain(layout.get("title", {}).get("text", ""))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
    back = f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
    return "\n".join([head, back, _text(10, 24, title, size=15), *body, "</svg>"])


def _bars(traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], height: int) -> list[str]:
    """Bars side by side for each name; those that lie are drawn one under the other."""
    flat = any(t.get("orientation") == "h" for t in traces)
    series = [_counted(t, traces) if t.get("type") == "histogram" else _bar(t) for t in traces]
    names = list(dict.fromkeys(n for own in series for n in own))
    most = max((v for own in series for v in own.values()), default=0) or 1
    legend = [str(t["name"]) for t in traces if t.get("name")]
    out = _legend(legend, [_COLOURS[i % len(_COLOURS)] for i in range(len(legend))])
    left = min(320, int(max((len(n) for n in names), default=0) * _LETTER) + 16) if flat else _LEFT
    across, down = WIDTH - left - _RIGHT, height - _TOP - _BOTTOM
    room = (down if flat else across) / max(1, len(names))
    thick = room * 0.8 / max(1, len(series))
    every = max(1, len(names) * 44 // across) if not flat else 1
    for i, name in enumerate(names):
        for j, own in enumerate(series):
            value = own.get(name, 0)
            length = (across - 50 if flat else down) * value / most
            start = i * room + 0.1 * room + j * thick
            x, y = (left, _TOP + start) if flat else (left + start, _TOP + down - length)
            width, tall = (length, thick) if flat else (thick, length)
            out.append(_rect(x, y, width, tall, _COLOURS[j % len(_COLOURS)], f"{name}: {_number(value)}"))
            if flat:
                out.append(_text(left + length + 4, _TOP + start + thick / 2 + 4, _number(value)))
        if flat:
            out.append(_text(left - 6, _TOP + (i + 0.5) * room + 4, name, anchor="end"))
        elif i % every == 0:
            out.append(_text(left + (i + 0.5) * room, height - _BOTTOM + 16, name, anchor="middle"))
    if not flat:
        out += _scale(most, left, down)
    return out + _axes(layout, height)


def _bar(trace: Mapping[str, Any]) -> dict[str, float]:
    names, values = ("y", "x") if trace.get("orientation") == "h" else ("x", "y")
    return {_plain(n): float(v) for n, v in zip(_list(trace.get(names)), _list(trace.get(values)), strict=True)}


def _counted(trace: Mapping[str, Any], traces: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns how many values of a histogram lie in each of the bins that all its traces share, by their start."""
    every = [float(v) for t in traces for v in _list(t.get("x"))] or [0.0]
    edges = np.linspace(min(every), max(every) + 1, _BINS + 1)
    counts, _ = np.histogram([float(v) for v in _list(trace.get("x"))], edges)
    return {f"{edge:.0f}": float(n) for edge, n in zip(edges, counts, strict=False)}


def _points(traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], height: int) -> list[str]:
    named = any(isinstance(y, str) for t in traces for y in _list(t.get("y")))
    rows = list(dict.fromkeys(str(y) for t in traces for y in _list(t.get("y")))) if named else []
    values = [v for t in traces for v in _reach(t)] or [0.0]
    left = int(max((len(r) for r in rows), default=0) * _LETTER) + 24 if named else _LEFT
    across = _Axis(min([*values, 0.0] if named else values), max([*values, 0.0] if named else values), left, WIDTH - 40)
    heights = [float(y) for t in traces for y in _list(t.get("y")) if y is not None] if not named else []
    down = _Axis(min(heights, default=0.0), max(heights, default=1.0), height - 30, _TOP + 10)
    legend = [str(t["name"]) for t in traces if t.get("name")]
    colours = [_colour(t, i) for i, t in enumerate(traces)]
    out = _legend(legend, colours)

    def at(y: Any) -> float:
        return _TOP + (rows.index(str(y)) + 0.5) * (height - _TOP - _BOTTOM) / len(rows) if named else down.at(float(y))

    for trace, colour in zip(traces, colours, strict=True):
        out += _trace(trace, colour, across, at)
    if named:
        out += [_text(left - 10, at(row) + 4, row, anchor="end") for row in rows]
        out.append(_line(across.at(0.0), _TOP, across.at(0.0), height - _BOTTOM, "#888", dash=True))
        out += [
            _text(across.at(v), height - _BOTTOM + 16, f"{v:+.3f}", anchor="middle")
            for v in sorted({across.low, 0.0, across.high})
        ]
        out += _axes(layout, height)
    return out


def _trace(trace: Mapping[str, Any], colour: str, across: "_Axis", at: Any) -> list[str]:
    xs, ys = _list(trace.get("x")), _list(trace.get("y"))
    if trace.get("mode") == "lines":
        ends = list(zip(xs, ys, strict=True))
        return [
            _line(across.at(a), at(b), across.at(c), at(d), colour)
            for (a, b), (c, d) in pairwise(ends)
            if None not in (a, b, c, d)
        ]
    out = []
    error = trace.get("error_x") or {}
    above, below = _list(error.get("array")), _list(error.get("arrayminus"))
    labels = _list(trace.get("text"))
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if i < len(above):
            out.append(_line(across.at(x - below[i]), at(y), across.at(x + above[i]), at(y), colour))
        shown = _plain(labels[i]) if i < len(labels) else ""
        told = f"<title>{_escaped(shown)}</title>"
        out.append(f'<circle cx="{across.at(x):.1f}" cy="{at(y):.1f}" r="5" fill="{_escaped(colour)}">{told}</circle>')
        if shown:
            out.append(_text(across.at(x) + 8, at(y) + 4, shown if len(shown) <= 24 else shown[:23] + "…", size=9))
    return out


def _flows(trace: Mapping[str, Any], height: int) -> list[str]:
    """Nodes where the figure puts them, and a band from node to node, as wide as its value."""
    nodes, links = trace["node"], trace["link"]
    xs = [float(x) * (WIDTH - 300) + 20 for x in _list(nodes["x"])]
    ys = [float(y) * (height - 130) + 90 for y in _list(nodes["y"])]
    values = [float(v) for v in _list(links["value"])]
    widest = max(values, default=1.0) or 1.0
    out = []
    for a, b, value, colour in zip(
        _list(links["source"]), _list(links["target"]), values, _list(links["color"]), strict=True
    ):
        x0, x1, y0, y1 = xs[a] + 14, xs[b], ys[a], ys[b]
        middle = (x0 + x1) / 2
        path = f"M{x0:.1f},{y0:.1f} C{middle:.1f},{y0:.1f} {middle:.1f},{y1:.1f} {x1:.1f},{y1:.1f}"
        wide = max(1.0, 26 * value / widest)
        out.append(f'<path d="{path}" fill="none" stroke="{_escaped(str(colour))}" stroke-width="{wide:.1f}"/>')
    for x, y, label, colour in zip(xs, ys, _list(nodes["label"]), _list(nodes["color"]), strict=True):
        out.append(_rect(x, y - 14, 14, 28, str(colour), _plain(label)))
        out.append(_text(x + 18, y + 4, _plain(label), size=11))
    return out


class _Axis:
    """Maps values to pixels, ends included."""

    def __init__(self, low: float, high: float, start: float, end: float):
        self.low, self.high, self._start, self._end = low, high, start, end

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self._start + share * (self._end - self._start)


def _reach(trace: Mapping[str, Any]) -> list[float]:
    xs, error = _list(trace.get("x")), trace.get("error_x") or {}
    above, below = _list(error.get("array")) or [0.0] * len(xs), _list(error.get("arrayminus")) or [0.0] * len(xs)
    ends = [(x - b, x + a) for x, a, b in zip(xs, above, below, strict=False) if x is not None]
    return [v for pair in ends for v in pair]


def _scale(most: float, left: float, down: float) -> list[str]:
    out = []
    for share in (0.0, 0.5, 1.0):
        y = _TOP + down * (1 - share)
        out += [_line(left, y, WIDTH - _RIGHT, y, "#ddd"), _text(left - 6, y + 4, _number(most * share), anchor="end")]
    return out


def _axes(layout: Mapping[str, Any], height: int) -> list[str]:
    x = _plain(layout.get("xaxis", {}).get("title", {}).get("text", ""))
    y = _plain(layout.get("yaxis", {}).get("title", {}).get("text", ""))
    return [_text(WIDTH / 2, height - 16, x, anchor="middle"), _text(10, _TOP - 10, y)]


def _legend(names: Sequence[str], colours: Sequence[str]) -> list[str]:
    out, x = [], 10.0
    for name, colour in zip(names, colours, strict=False):
        out += [_rect(x, 34, 10, 10, colour, ""), _text(x + 14, 43, _plain(name))]
        x += 30 + len(name) * _LETTER
    return out


def _colour(trace: Mapping[str, Any], place: int) -> str:
    own = (trace.get("marker") or {}).get("color")
    return own if isinstance(own, str) else _COLOURS[place % len(_COLOURS)]


def _list(values: Any) -> list[Any]:
    if values is None:
        return []
    if isinstance(values, Mapping):  # plotly packs arrays of numbers
        import base64

        return list(np.frombuffer(base64.b64decode(values["bdata"]), np.dtype(values["dtype"])))
    return list(values)


def _rect(x: float, y: float, width: float, height: float, colour: str, told: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect {place} fill="{_escaped(colour)}"><title>{_escaped(told)}</title></rect>'


def _line(x0: float, y0: float, x1: float, y1: float, colour: str, dash: bool = False) -> str:
    dashes = ' stroke-dasharray="3 3"' if dash else ""
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{_escaped(colour)}"{dashes}/>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    font = _FONT.replace('"12"', f'"{size}"')
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {font}>{_escaped(text)}</text>' if text else ""


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"


def _plain(text: Any) -> str:
    """Returns plotly's marked-up text as plain text: entities are read, tags are dropped."""
    return html.unescape(re.sub(r"<[^>]*>", " ", str(text))).strip()


def _escaped(text: str) -> str:
    return html.escape(text)
