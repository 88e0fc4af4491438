"""Draws the report: Jinja templates that escape every value, one page with its style inside and no script at all."""

from copy import deepcopy
from functools import cache
from typing import Any

from palimpsest.core.times import readable
from palimpsest_eval.report.charts import HEIGHT, WIDTH
from palimpsest_eval.report.page import ReportPage

MAX_BYTES = 2 * 2**20


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Always on, whatever a template is called: documents and questions are untrusted text.
    environment = Environment(
        loader=PackageLoader("palimpsest_eval.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"spark_width": WIDTH, "spark_height": HEIGHT}
    environment.filters["time"] = readable
    environment.filters["number"] = _format_number
    return environment


def report_html(page: ReportPage) -> str:
    """Returns the page of a build from what `gather` returned, with fewer questions where it would be over 2 MB."""
    template = _environment().get_template("page.html")
    text = str(template.render(page=page))
    while len(text.encode()) > MAX_BYTES and any(c["worst"] for c in page["collections"]):
        for section in (page := deepcopy(page))["collections"]:
            section["worst"] = section["worst"][: len(section["worst"]) // 2]
        text = str(template.render(page=page))
    return text


def render_page(template: str, **values: object) -> str:
    """Returns a template of this folder with values, every one of them escaped."""
    return str(_environment().get_template(template).render(**values))


def picture_html(page: ReportPage) -> str:
    """Returns the report's main picture as an SVG document: recall by collection and type."""
    return str(_environment().get_template("picture.svg").render(page=page))


def _format_number(value: float | None, ms: bool = False, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:{'+' if signed else ''}.{1 if ms else 3}f}"
