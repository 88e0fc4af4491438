"""The report of a build: one HTML page that needs nothing but itself, and the picture that the Dagster UI shows."""

from palimpsest_eval.report.gather import gather
from palimpsest_eval.report.page import picture_html, report_html

__all__ = ["gather", "picture_html", "report_html"]
