"""Formed memories by row, and how a question that asks for a kind of them lifts them."""

import numpy as np

from palimpsest.query.ranking.rank import KIND_WEIGHT, lift_requested_kinds
from palimpsest.query.ranking.scoring import RowLayout, Scored
from palimpsest.query.scope.scope_arrays import Flags
from palimpsest.query.scope.view import FormedRows

# Memory 3 rests on 0; memory 4 on 1 and 2.
ROWS = FormedRows(np.array([3, 4, 4]), np.array([0, 1, 2]), np.array([1, 0, 0]), ("decision", "preference"))


class View:
    def formed(self):
        return ROWS


class Served:
    def __init__(self, has_formed):
        self.has_formed = has_formed


class Query:
    def __init__(self, text, has_formed=True):
        self.text, self.served = text, Served(has_formed)


def scored(rows):
    zeros = np.zeros(5)
    return Scored(
        np.arange(5).astype(str), RowLayout(Flags.from_rows(rows, 5).values), zeros, zeros, zeros, zeros, lambda row: ()
    )


def test_a_kind_has_its_memories_and_the_one_that_each_rests_on_alone():
    assert ROWS.of_kinds({"preference"}).tolist() == [0, 3]
    assert ROWS.of_kinds({"decision"}).tolist() == [4]
    assert ROWS.of_kinds({"gap"}).tolist() == []


def test_only_candidates_of_the_kind_gain():
    lifted = lift_requested_kinds(scored([0, 1, 2, 4]), View(), Query("What do I prefer?"))
    assert lifted.total.tolist() == [KIND_WEIGHT, 0, 0, 0, 0]
    lifted = lift_requested_kinds(scored(range(5)), View(), Query("What have we decided?"))
    assert lifted.total.tolist() == [0, 0, 0, 0, KIND_WEIGHT]


def test_nothing_gains_where_no_kind_is_asked_for_or_nothing_is_formed():
    same = scored(range(5))
    assert lift_requested_kinds(same, View(), Query("Who is my dentist?")) is same
    assert lift_requested_kinds(same, View(), Query("What do I prefer?", has_formed=False)) is same
