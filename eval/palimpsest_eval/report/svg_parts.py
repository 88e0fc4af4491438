"""Elements of a still SVG: rectangles, lines, circles and texts, all of whose words are escaped."""

import html
import re
from collections.abc import Sequence

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
