"""The pictures: counts have whole ticks, every word is a text as it was written, colours are those of the page."""

import re
from xml.etree import ElementTree

import pytest

from palimpsest_eval.report.pictures import (
    PALETTE,
    PHONE,
    ArcLink,
    ArcNode,
    Bar,
    Interval,
    arc_chart,
    bar_chart,
    column_chart,
    histogram_chart,
    interval_chart,
    palette_css,
    reliability_chart,
    to_spec,
    to_svg,
)

NASTY = '</style><script>alert(1)</script>&{{ 7*7 }}" onload="x'
TEXT = "{http://www.w3.org/2000/svg}text"


def texts(svg):
    return ["".join(element.itertext()).strip() for element in ElementTree.fromstring(svg).iter(TEXT)]


@pytest.mark.parametrize("most", [1, 2, 3, 7, 277, 1110])
def test_counts_have_whole_ticks_with_the_names_of_both_axes(most):
    bars = [Bar("a", most), Bar("b", 0)]
    for chart in (column_chart(bars, "month", "chunks"), bar_chart(bars, "chunks", name="month")):
        shown = texts(to_svg(chart, "counts"))
        ticks = [t for t in shown if re.fullmatch(r"[\d.,]+", t)]
        assert {"chunks", "month", "a", "b"} <= set(shown) and len(ticks) >= 2
        assert all(re.fullmatch(r"\d{1,3}(,\d{3})*", tick) for tick in ticks), ticks
    ticks = [t for t in texts(to_svg(histogram_chart({"x": [5] * most}, "tokens", "chunks"), "h")) if t[0].isdigit()]
    assert all(re.fullmatch(r"\d{1,3}(,\d{3})*", tick) for tick in ticks)


def test_a_single_column_is_not_as_wide_as_the_picture():
    svg = ElementTree.fromstring(to_svg(column_chart([Bar("2026-11-30", 9)], "day", "nodes"), ""))
    (column,) = [e for e in svg.iter("{http://www.w3.org/2000/svg}path") if e.get("aria-roledescription") == "bar"]
    assert float(re.search(r"h([\d.]+)", column.get("d"))[1]) <= 26


def test_words_are_texts_as_they_were_written_and_never_markup():
    nodes = [ArcNode("1", NASTY[:20], NASTY), ArcNode("2", "b", "place")]
    charts = (
        bar_chart([Bar(NASTY, 0.5, NASTY, 0.25), Bar("b", 1.0, "s")], NASTY, form=".3f"),
        column_chart([Bar(NASTY, 3, NASTY), Bar("b", 2, "s")], NASTY, NASTY),
        interval_chart([Interval(NASTY, 0, 1, 2)], NASTY, zero=True),
        arc_chart(nodes, [ArcLink("1", "2", NASTY, NASTY)], NASTY, NASTY),
        reliability_chart([(0.5, 0.5, 3), (0.9, 1.0, 2)]).properties(title=NASTY),
    )
    for chart in charts:
        svg = to_svg(chart, NASTY, alone=True)
        assert ElementTree.fromstring(svg).get("aria-label") == NASTY and svg == to_svg(chart, NASTY, alone=True)
        assert not re.search(r"<script|@import|url\(|href", svg) and "49" not in texts(svg)


def test_every_node_has_its_label_and_nodes_and_links_a_legend_each():
    nodes = [
        ArcNode(str(i), "Otter" if i < 3 else f"Node {i} of a very long name that goes on", "place") for i in range(24)
    ]
    links = [ArcLink("0", str(i), f"kind {i % 7}") for i in range(1, 24)]
    shown = texts(to_svg(arc_chart(nodes, links, "node", "edge"), "graph"))
    assert {"Otter (place)", "Otter (place) 2", "Otter (place) 3", "node", "edge", "other"} <= set(shown)
    assert sum(label.startswith(("Otter", "Node")) for label in shown) == 24


def test_colours_are_those_of_the_palette_readable_in_light_and_dark():
    svg = to_svg(bar_chart([Bar("a", 3, "x", 2), Bar("a", 2, "y")], "memories"), "bars")
    used = set(re.findall(r'(?:fill|stroke)="(?!none|transparent)([^"]+)"', svg))
    assert used and all(re.fullmatch(r"var\(--\w+,#[0-9a-f]{6}\)", color) for color in used), used
    for name, pair in PALETTE.items():
        assert f"--{name}:{pair[0]}" in palette_css() and f"--{name}:{pair[1]}" in palette_css()
    for at in (0, 1):
        card = luminance(PALETTE["card"][at])
        for name in set(PALETTE) - {"page", "card", "line", "tint"}:
            low, high = sorted((card, luminance(PALETTE[name][at])))
            assert (high + 0.05) / (low + 0.05) >= (4.5 if name in ("ink", "soft", "good", "bad", "warn") else 3), name


def luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_a_picture_is_as_wide_as_a_phone_and_in_a_notebook_wider():
    for chart in (
        bar_chart([], "x"),
        column_chart([], "a", "b"),
        arc_chart([], [], "node", "edge"),
        histogram_chart({}, "a", "b"),
    ):
        assert float(ElementTree.fromstring(to_svg(chart, "empty")).get("width")) <= PHONE + 8
    spec = to_spec(bar_chart([Bar("a", 1)], "x"), 640)
    assert spec["width"] == 640 and spec["$schema"].endswith("/v5.json")
