"""The graph of a scope as pictures: its largest nodes and how they are tied, and how it grew."""

import html
from typing import Any

from palimpsest_eval.report.graph_chart import GraphChart


def largest_nodes_figure(chart: GraphChart, build_id: str) -> Any:
    """Returns the most important nodes on a circle, with the edges between them; a name is shown when pointed at."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for kind in sorted({line.type for line in chart.lines}):
        lines = [line for line in chart.lines if line.type == kind]
        x = [v for line in lines for v in (line.x1, line.x2, None)]
        y = [v for line in lines for v in (line.y1, line.y2, None)]
        figure.add_scatter(x=x, y=y, mode="lines", name=kind, line_width=1, hoverinfo="skip")
    for kind in sorted({dot.type for dot in chart.dots}):
        dots = [dot for dot in chart.dots if dot.type == kind]
        figure.add_scatter(
            x=[dot.x for dot in dots],
            y=[dot.y for dot in dots],
            mode="markers",
            name=kind,
            text=[html.escape(dot.name) for dot in dots],
            hoverinfo="text",
            marker={"size": [2 * dot.radius for dot in dots]},
        )
    hidden = {"visible": False}
    return figure.update_layout(
        title=f"Largest nodes of {html.escape(chart.scope)} (build {build_id})",
        template="simple_white",
        xaxis=hidden,
        yaxis=hidden | {"scaleanchor": "x"},
        height=600,
    )


def growth_figure(chart: GraphChart, build_id: str) -> Any:
    """Returns how many nodes there were by each day on which memories were read."""
    import plotly.graph_objects as go

    days, counts = zip(*chart.growth, strict=True) if chart.growth else ((), ())
    figure = go.Figure(go.Bar(x=list(days), y=list(counts)))
    return figure.update_layout(
        title=f"Nodes of {html.escape(chart.scope)} by day (build {build_id})",
        template="simple_white",
        xaxis_title="day",
        yaxis_title="nodes",
    )
