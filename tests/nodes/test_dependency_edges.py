"""Which clauses and facts state that one thing depends on another."""

import polars as pl
import pytest

from palimpsest.nodes.node_tables import is_dependency
from tests.nodes.made_nodes import Page, edges_of, made


@pytest.mark.parametrize(
    ("predicate", "subject", "target", "expected"),
    [
        ("run_on", "product", "concept", True),
        ("run_on", "place", "place", False),
        ("run_on", "person", "concept", False),
        ("build_on", "project", "product", True),
        ("build_on", "product", "place", False),
        ("uses", "person", "product", False),
        ("uses", "concept", "product", True),
        ("block_by", "project", "person", True),
        ("wait_for", "person", "project", False),
        ("depends_on", "organisation", "product", True),
        ("visit", "product", "product", False),
        ("uses", None, "product", False),
    ],
)
def test_a_predicate_states_a_dependency_between_some_types(predicate, subject, target, expected):
    row = pl.DataFrame(
        {"p": [predicate], "s": [subject], "o": [target]}, schema=dict.fromkeys(("p", "s", "o"), pl.String)
    )
    assert row.select(is_dependency(pl.col("p"), pl.col("s"), pl.col("o"))).item() is expected


@pytest.mark.parametrize(
    ("text", "is_stated"),
    [
        ("Rask cannot start until Basin is up.", True),
        ("It rains. The Rask can't be closed without the Basin.", True),
        ("Rask can start before Basin.", False),
        ("The lead of Rask cannot leave until Basin is up.", False),
        ("Rask cannot start. Until Basin is up we wait.", False),
    ],
)
def test_what_cannot_be_done_without_another_thing_depends_on_it(text, is_stated):
    tables = made([Page("a.md", [text])], {"Rask": "name", "Basin": "name"})
    assert (("Rask", "depends_on", "Basin") in edges_of(tables)) is is_stated
