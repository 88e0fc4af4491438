"""Which clauses and facts state that one thing depends on another."""

import polars as pl
import pytest

from palimpsest.nodes.node_tables import is_dependency
from tests.nodes.made_nodes import Page, edges_of, made


@pytest.mark.parametrize(
    ("predicate", "subject", "target", "expected"),
    [
        ("uses", "product", "concept", True),
        ("uses", "place", "place", False),
        ("uses", "person", "product", False),
        ("uses", "concept", "product", True),
        ("depends_on", "project", "person", True),
        ("depends_on", "person", "project", False),
        ("depends_on", "organisation", "product", True),
        ("made", "product", "product", False),
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
