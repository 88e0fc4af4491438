"""Tiers: personal, project and task follow from scope and type, and nothing of another tier is shown."""

import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_home
from palimpsest.query.request.search_request import SearchRequest, narrow_to_tiers
from palimpsest.query.request.types import Filters, Scope
from palimpsest.sources.inbox import ingest_text
from palimpsest.store.home import Home

TEXTS = {
    "personal": ("The harbor list is in the drawer.", {}),
    "project": ("The harbor list is in the annex.", {"project": "alpha"}),
    "task": ("Check the harbor list of the annex.", {"project": "alpha", "type": "task"}),
    "own task": ("Print the harbor list at home.", {"type": "task"}),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory, shared_vectors):
    home = Home(tmp_path_factory.mktemp("tiers") / "home", shared_vectors)
    for text, options in TEXTS.values():
        ingest_text(home, text, user="ann", **options)
    run_without_dagster(home, make_plan(home, None))
    ingest_text(home, "The harbor list of the attic waits.", user="ann", project="alpha", type="task")
    return home


@pytest.mark.parametrize(
    ("tiers", "names"),
    [
        ((), {"personal", "project", "task", "own task"}),
        (("personal",), {"personal"}),
        (("PROJECT",), {"project"}),
        (("task",), {"task", "own task"}),
        (("personal", "task"), {"personal", "task", "own task"}),
    ],
)
def test_a_tier_narrows_every_text_of_an_answer(home, tiers, names):
    with open_home(home.path) as reader:
        scopes = reader.resolve_scopes("inbox", "ann", "alpha")
        answer = reader.search("Where is the harbor list?", scopes, tiers=tiers, k=10, include_pending=True)
    assert {m.text for m in answer.memories} == {TEXTS[name][0] for name in names}
    assert all(
        text in answer.context if name in names else text not in answer.context for name, (text, _) in TEXTS.items()
    )
    assert len(answer.pending) == (not tiers or "task" in tiers)


def test_a_tier_and_types_both_apply():
    scope = Scope("c", "u")
    assert narrow_to_tiers(Filters(types=("task",)), scope, ("personal",)).accessed == frozenset()
    assert narrow_to_tiers(Filters(types=("task", "summary")), scope, ("personal",)).types == ("summary",)
    assert narrow_to_tiers(Filters(), scope, ("personal", "task")) == Filters()
    with pytest.raises(ArgumentError, match="tiers='team'"):
        SearchRequest.create("harbor", scope, tiers=["team"])
