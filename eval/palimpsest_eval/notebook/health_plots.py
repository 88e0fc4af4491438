"""The pictures of notebook 5: growth, ages and time, from what `eval/palimpsest_eval/health` computes."""

import html
from typing import Any

from palimpsest_eval.health.home_health import HomeHealth

_SHOWN_BUILDS = 5


def history_figure(health: HomeHealth) -> Any:
    """Returns how many memories each build had, latest and retired."""
    import plotly.graph_objects as go

    figure = go.Figure()
    ids = [b.build_id for b in health.builds]
    for name in ("latest", "retired"):
        figure.add_bar(name=name, x=ids, y=[b.numbers.get(name, 0.0) for b in health.builds])
    return _titled(figure, "Memories over builds", health, barmode="stack", xaxis_type="category")


def ages_figure(health: HomeHealth) -> Any:
    """Returns how old the latest memories are."""
    import plotly.graph_objects as go

    groups = [*health.ages.groups, ("no date", health.ages.undated)]
    figure = go.Figure(go.Bar(x=[name for name, _ in groups], y=[count for _, count in groups]))
    return _titled(figure, "Latest memories, observed within a", health, yaxis_title="memories")


def stages_figure(health: HomeHealth) -> Any:
    """Returns the seconds of each stage in the last builds."""
    import plotly.graph_objects as go

    shown = health.builds[-_SHOWN_BUILDS:]
    names = sorted({name for b in shown for name in b.seconds})
    figure = go.Figure()
    for b in shown:
        figure.add_bar(name=b.build_id, y=names, x=[b.seconds.get(n, 0.0) for n in names], orientation="h")
    return _titled(figure, "Time by stage", health, xaxis_title="seconds", height=600)


def _titled(figure: Any, title: str, health: HomeHealth, **layout: Any) -> Any:
    return figure.update_layout(
        title=f"{html.escape(title)} (build {health.build_id})", template="simple_white", **layout
    )
