"""The clauses of parsed texts: what they state, and what they say more weakly."""

import pytest

from palimpsest.facts.clause_tree import ClauseTree, Modality
from palimpsest.text.parse import parse_texts


@pytest.mark.parametrize(
    ("text", "modality"),
    [
        ("Jon lives in Graz.", Modality.STATED),
        ("Jon lived in Graz.", Modality.PAST),
        ("Jon might live in Graz.", Modality.SUPPOSED),
        ("Jon wants a flat in Graz.", Modality.WISHED),
        ("Jon plans a move to Graz.", Modality.PLANNED),
        ("Apparently Jon lives in Graz.", Modality.REPORTED),
        ("Does Jon live in Graz?", Modality.QUESTION),
        ("Jon moved to Graz.", Modality.PAST),
    ],
)
def test_a_clause_states_or_says_something_weaker(text: str, modality: Modality) -> None:
    tree = ClauseTree(next(parse_texts([text])))
    assert tree.modality(tree.heads[0]) is modality
