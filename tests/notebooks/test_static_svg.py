"""Plotly's figures as stills: every word is in them as text, as it was written, and none is over another."""

import re
from xml.etree import ElementTree

import plotly.graph_objects as go
import pytest

from palimpsest_eval.notebook.static_svg import svg_of

TEXT = "{http://www.w3.org/2000/svg}text"


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()).strip() for element in ElementTree.fromstring(svg).iter(TEXT)]


def test_words_are_texts_as_they_were_written_and_never_markup():
    bars = go.Bar(x=[3, 2], y=["Ana &lt;b&gt;", "$x_1$ &amp; co"], orientation="h")
    figure = go.Figure(bars).update_layout(title="First &lt;script&gt;<br><sup>then</sup>", xaxis_title="memories")
    svg = svg_of(figure)
    assert {"Ana <b>", "$x_1$ & co", "First <script>", "then", "memories", "3", "2"} <= set(texts(svg))
    assert not re.search(r"<script|@import|url\((?!#)|\son\w+=", svg) and svg == svg_of(figure)


def test_bars_of_several_series_have_a_legend_and_a_name_each():
    figure = go.Figure([go.Bar(name="one", x=["a", "b"], y=[1, 2]), go.Bar(name="two", x=["b", "c"], y=[3, 4])])
    assert {"one", "two", "a", "b", "c"} <= set(texts(svg_of(figure)))
    histogram = go.Figure([go.Histogram(x=[1, 2, 2], name="notes"), go.Histogram(x=[9], name="mails")])
    assert {"notes", "mails"} <= set(texts(svg_of(histogram)))


def test_points_have_rows_intervals_and_labels_where_there_is_room():
    error = {"type": "data", "symmetric": False, "array": [0.1, 0.2], "arrayminus": [0.1, 0.1]}
    changes = go.Figure(go.Scatter(x=[0.1, -0.1], y=["R@5", "P@5"], error_x=error, mode="markers"))
    assert {"R@5", "P@5"} <= set(texts(svg_of(changes)))
    crowd = go.Scatter(x=[0.0] * 60, y=[0.0] * 60, mode="markers", text=[f"label {n} {'x' * 40}" for n in range(60)])
    shown = [t for t in texts(svg_of(go.Figure(crowd))) if t.startswith("label")]
    assert 0 < len(shown) < 60 and all(len(t) <= 24 and t.endswith("\u2026") for t in shown)
    lines = go.Figure(go.Scatter(x=[0, 1, None, 2, 3], y=[0, 1, None, 2, 3], mode="lines", name="next"))
    assert "next" in texts(svg_of(lines))


def test_flows_name_their_nodes():
    node = {"label": ["question", "&lt;memory&gt;"], "x": [0.0, 1.0], "y": [0.5, 0.5], "color": ["#2867c7", "#0f8a7e"]}
    link = {"source": [0], "target": [1], "value": [0.5], "color": ["rgba(40,103,199,0.28)"]}
    svg = svg_of(go.Figure(go.Sankey(node=node, link=link)))
    assert {"question", "<memory>"} <= set(texts(svg)) and "opacity: 0.28" in svg


def test_a_figure_without_points_is_a_picture_and_another_kind_is_an_error():
    assert texts(svg_of(go.Figure().update_layout(title="Nothing yet")))[-1] == "Nothing yet"
    with pytest.raises(ValueError, match="pie"):
        svg_of(go.Figure(go.Pie(values=[1])))
