"""Draws the report: Jinja templates that escape every value, one page with its style inside and no script at all."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from palimpsest.eval.report.charts import HEIGHT, WIDTH

MAX_BYTES = 2 * 2**20


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Escaping is not left to file names: documents and questions are anybody's words.
    made = Environment(
        loader=PackageLoader("palimpsest.eval.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"spark_width": WIDTH, "spark_height": HEIGHT}
    made.filters["number"] = _number
    return made


def report_html(page: Mapping[str, Any]) -> str:
    """Returns the page of a build from what `gather` told; at most 2 MB: where it would be more, questions are cut."""
    text = str(_environment().get_template("page.html").render(page=page))
    while len(text.encode()) > MAX_BYTES and any(c["worst"] for c in page["collections"]):
        kept = [c | {"worst": c["worst"][: len(c["worst"]) // 2]} for c in page["collections"]]
        page = {**page, "collections": kept}
        text = str(_environment().get_template("page.html").render(page=page))
    return text


def picture_html(page: Mapping[str, Any]) -> str:
    """Returns the report's main picture as an SVG document: recall by collection and type."""
    return str(_environment().get_template("picture.svg").render(page=page))


def _number(value: float | None, ms: bool = False, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:{'+' if signed else ''}.{1 if ms else 3}f}"
