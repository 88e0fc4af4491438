"""Reads the postings of a scope's terms from an index."""

import numpy as np

from palimpsest.query.backends.duckdb_arrays import TermIndex, Vocabulary
from palimpsest.query.backends.part_query import Query, Range
from palimpsest.query.scope.scope_arrays import Postings

RANGES_AT_ONCE = 32  # terms read by one statement
NO_POSTINGS = Postings(np.zeros(0, np.int32), np.zeros(0, np.float32))
_TERMS = "SELECT term, first, df FROM terms WHERE scope = $scope ORDER BY first"
_POSTINGS = "SELECT row, score FROM postings"  # + ranges of rowid, which DuckDB finds without a scan


def read_term_index(query: Query, at: Range) -> TermIndex:
    """Returns where the postings of every term of a scope are."""
    found = query(_TERMS, at.scope).fetchnumpy()
    return TermIndex(np.asarray(found["term"], dtype=object), np.asarray(found["first"]), np.asarray(found["df"]))


def read_vocabulary(query: Query, at: Range) -> Vocabulary:
    """Returns every term of a scope with its postings."""
    terms = query(_TERMS, at.scope).fetchall()
    if not terms:
        return Vocabulary({})
    start, end = terms[0][1], terms[-1][1] + terms[-1][2]  # a scope's postings are adjacent, in order of its terms
    found = query(f"{_POSTINGS} WHERE rowid BETWEEN $a AND $b", {"a": start, "b": end - 1}).fetchnumpy()
    rows, scores = np.asarray(found["row"]) - np.int32(at.first), np.asarray(found["score"])
    return Vocabulary(
        {
            term: Postings(rows[first - start : first - start + df], scores[first - start : first - start + df])
            for term, first, df in terms
        }
    )


def read_postings(query: Query, at: Range, terms: list[tuple[str, int, int]]) -> dict[str, Postings]:
    """Returns the postings of (term, first, df), ascending by first, read by one statement in that order."""
    values = {f"{k}{i}": v for i, (_, first, df) in enumerate(terms) for k, v in (("a", first), ("b", first + df - 1))}
    where = " OR ".join(f"rowid BETWEEN $a{i} AND $b{i}" for i in range(len(terms)))
    found = query(f"{_POSTINGS} WHERE {where}", values).fetchnumpy()
    rows, scores = np.asarray(found["row"]) - np.int32(at.first), np.asarray(found["score"])
    ends = np.cumsum([df for _, _, df in terms])
    assert len(rows) == ends[-1]
    return {
        term: Postings(rows[end - df : end].copy(), scores[end - df : end].copy())
        for (term, _, df), end in zip(terms, ends.tolist(), strict=True)
    }
