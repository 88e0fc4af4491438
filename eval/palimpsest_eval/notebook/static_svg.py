"""A plotly figure as a still SVG, by matplotlib, for pages that run no script: bars, histograms, points, lines, flows.

Plotly's own export needs a browser. What is drawn here are the kinds of figure that notebooks make, plainly: the
interactive figure stays the better one.
"""

import html
import re
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _HEIGHT, _DPI = 820, 420, 100
_BINS = 40
_MAX_LABEL_CHARS = 24
_MAX_TITLE_CHARS = 100
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # texts stay texts
    "svg.hashsalt": "palimpsest",  # the same figure gives the same bytes
    "text.parse_math": False,  # a dollar is a dollar
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}

Trace = Mapping[str, Any]  # of plotly's JSON
Layout = Mapping[str, Any]


def svg_of(figure: Any) -> str:
    """Returns a figure as an SVG element that needs neither script nor network.

    Args:
        figure: a plotly figure of bar, histogram, scatter or sankey traces.

    Raises:
        ValueError: a trace is of another kind.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    drawn = figure.to_plotly_json()
    layout, traces = drawn.get("layout", {}), drawn.get("data", [])
    kinds = {t.get("type", "scatter") for t in traces}
    draw = next((f for known, f in _DRAWN.items() if kinds <= set(known)), None)
    if draw is None:
        raise ValueError(f"cannot draw traces of type {sorted(kinds)}")
    with rc_context(_STYLE):
        size = _WIDTH / _DPI, int(layout.get("height") or _HEIGHT) / _DPI
        picture = Figure(figsize=size, dpi=_DPI, layout="constrained")
        axes = picture.subplots()
        draw(axes, traces, layout)
        _frame(axes, traces, layout)
        out = StringIO()
        picture.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()[out.getvalue().index("<svg") :]


def plain(marked_up: object) -> str:
    """Returns plotly's marked-up text as plain text: entities are read, tags are dropped."""
    return html.unescape(re.sub(r"<[^<>]*+>", " ", str(marked_up))).strip()


def _frame(axes: "Axes", traces: Sequence[Trace], layout: Layout) -> None:
    """Writes the title, with what follows a line break under it, the names of the axes and the legend."""
    title, *below = map(plain, re.split(r"<br ?/?>", str(layout.get("title", {}).get("text", ""))))
    axes.set_title("\n".join([_shortened(title, _MAX_TITLE_CHARS), *below[:1]]), loc="left")
    for axis, label in ((layout.get("xaxis", {}), axes.set_xlabel), (layout.get("yaxis", {}), axes.set_ylabel)):
        label(plain(axis.get("title", {}).get("text", "")))
        if axis.get("visible") is False:
            axes.set_axis_off()
    if any(t.get("name") for t in traces):
        axes.legend(frameon=False)


def _bars(axes: "Axes", traces: Sequence[Trace], layout: Layout) -> None:
    """Bars side by side for each name; horizontal ones are drawn one under the other."""
    if traces and traces[0].get("type") == "histogram":
        axes.hist([_numbers(t.get("x")) for t in traces], bins=_BINS, label=[_name(t) for t in traces])
        return
    is_flat = any(t.get("orientation") == "h" for t in traces)
    of_names, of_values = ("y", "x") if is_flat else ("x", "y")
    names = list(dict.fromkeys(plain(n) for t in traces for n in _list(t.get(of_names))))
    thick = 0.8 / max(1, len(traces))
    for at, trace in enumerate(traces):
        places = [names.index(plain(n)) - 0.4 + (at + 0.5) * thick for n in _list(trace.get(of_names))]
        values = _numbers(trace.get(of_values))
        if is_flat:
            axes.bar_label(axes.barh(places, values, thick, label=_name(trace)), fmt="%.4g", padding=3)
        else:
            axes.bar(places, values, thick, label=_name(trace))
    if is_flat:
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
    else:
        every = max(1, len(names) * 44 // _WIDTH)
        axes.set_xticks(range(0, len(names), every), names[::every])


def _points(axes: "Axes", traces: Sequence[Trace], layout: Layout) -> None:
    """Lines, and points with their intervals; a point whose label has no free place has none."""
    from textalloc import allocate

    labels: list[tuple[Any, Any, str]] = []
    for trace in traces:
        xs, ys = _numbers(trace.get("x")), _list(trace.get("y"))
        if trace.get("mode") == "lines":
            axes.plot(xs, _numbers(ys), label=_name(trace), linewidth=1)
            continue
        error = trace.get("error_x") or {}
        spread = [_numbers(error["arrayminus"]), _numbers(error["array"])] if error else None
        color = (trace.get("marker") or {}).get("color")
        axes.errorbar(xs, ys, xerr=spread, fmt="o", label=_name(trace), color=color if isinstance(color, str) else None)
        labels += zip(xs, ys, map(plain, _list(trace.get("text"))), strict=False)
    if any(isinstance(y, str) for t in traces for y in _list(t.get("y"))):
        axes.axvline(0, color="#888", linestyle=":")
        axes.invert_yaxis()
    if labels:
        x, y, words = map(list, zip(*labels, strict=True))
        shown = [_shortened(word, _MAX_LABEL_CHARS) for word in words]
        allocate(axes, x, y, shown, x_scatter=x, y_scatter=y, textsize=7, draw_lines=False, draw_all=False)


def _flows(axes: "Axes", traces: Sequence[Trace], layout: Layout) -> None:
    """Nodes where the figure puts them, and a band from node to node, as wide as its value."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    nodes, links = traces[0]["node"], traces[0]["link"]
    xs, ys, widths = _numbers(nodes["x"]), _numbers(nodes["y"]), _numbers(links["value"])
    points = 18 * widths / (widths.max(initial=0.0) or 1.0)
    for a, b, width, color in zip(
        _list(links["source"]), _list(links["target"]), points, _list(links["color"]), strict=True
    ):
        middle = (xs[a] + xs[b]) / 2
        path = Path([(xs[a], ys[a]), (middle, ys[a]), (middle, ys[b]), (xs[b], ys[b])], [1, 4, 4, 4])
        axes.add_patch(PathPatch(path, fill=False, edgecolor=_color(color), linewidth=max(1.0, width)))
    axes.scatter(xs, ys, c=list(map(_color, _list(nodes["color"]))), marker="s", s=150, zorder=2)
    for x, y, label in zip(xs, ys, _list(nodes["label"]), strict=True):
        axes.annotate(plain(label), (x, y), (10, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set(xlim=(-0.02, 1.4), ylim=(1.05, -0.1))  # labels of the last column are right of it
    axes.set_axis_off()


_DRAWN = {("bar",): _bars, ("histogram",): _bars, ("scatter",): _points, ("sankey",): _flows}


def _name(trace: Trace) -> str:
    return plain(trace.get("name") or "")


def _shortened(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"


def _color(color: object) -> Any:
    """Returns matplotlib's form of a colour of CSS, such as `rgba(40, 103, 199, 0.5)`."""
    text = str(color)
    if not text.startswith("rgb"):
        return text
    red, green, blue, *alpha = (float(n) for n in re.findall(r"[\d.]+", text))
    return red / 255, green / 255, blue / 255, *alpha


def _numbers(values: Any) -> np.ndarray:
    """Returns numbers, NaN where there is none."""
    return np.array([np.nan if v is None else float(v) for v in _list(values)], float)


def _list(values: Any) -> list[Any]:
    if values is None:
        return []
    if isinstance(values, Mapping):  # plotly packs arrays of numbers
        import base64

        return list(np.frombuffer(base64.b64decode(values["bdata"]), np.dtype(values["dtype"])))
    return list(values)
