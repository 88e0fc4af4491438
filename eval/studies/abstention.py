"""How well answerable questions of a suite are recognized: `python -m palimpsest.eval.studies.abstention SUITE`.

Unanswerable are the queries of a type, and every query when it is searched in the scope of another one.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from palimpsest.core.progress import say, tracked
from palimpsest.eval.golden.abstention import caught_questions
from palimpsest.eval.golden.retrieval_run import Searcher
from palimpsest.eval.runs.suite_runs import suite_home
from palimpsest.eval.suites.suite import SuiteQuery, load_suite
from palimpsest.eval.suites.suite_collection import SHARED_USER, collection_name
from palimpsest.query.answerability.model import answerability_model
from palimpsest.query.reader import open_home
from palimpsest.query.request.types import Scope


def probabilities(reader: Searcher, collection: str, queries: Sequence[tuple[str, str]]) -> np.ndarray:
    """Returns the probability of an answer of each query, given with the scope that is searched."""
    out = []
    for text, scope in tracked(queries, "search", "queries"):
        found = reader.search(text, Scope(collection, scope), k=5).answerability
        out.append(found.probability if found else 0.0)
    return np.array(out)


def compared(answerable: np.ndarray, unanswerable: np.ndarray) -> str:
    """Returns figures of two kinds of queries as one line."""
    values = {f"a{i}": float(p) for i, p in enumerate(answerable)} | {
        f"u{i}": float(p) for i, p in enumerate(unanswerable)
    }
    caught = caught_questions(values, frozenset(f"u{i}" for i in range(len(unanswerable))))
    area = roc_auc_score(np.arange(len(values)) < len(answerable), np.concatenate([answerable, unanswerable]))
    threshold = answerability_model().threshold
    return (
        f"area under the ROC curve {area:.3f}; caught at 2 % lost {np.mean(list(caught.values())):.3f}; at the shipped"
        f" threshold caught {(unanswerable < threshold).mean():.3f}, lost {(answerable < threshold).mean():.3f}"
    )


def main() -> None:
    """Prints the figures of a suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=Path)
    parser.add_argument("--type", help="type of the queries that have no answer")
    parser.add_argument("--at-most", type=int, default=600, help="queries of each kind, drawn by a fixed seed")
    given = parser.parse_args()
    suite = load_suite(given.suite)
    drawn = [suite.queries[i] for i in np.random.default_rng(0).permutation(len(suite.queries))]
    with_answer = [q for q in drawn if q.type != given.type and suite.relevant(q.query_id)][: given.at_most]
    without = [q for q in drawn if q.type == given.type][: given.at_most] if given.type else []
    scopes = sorted({_scope(q) for q in with_answer})
    following = dict(zip(scopes, [*scopes[1:], *scopes[:1]], strict=True))
    home, _ = suite_home(given.suite)
    name = collection_name(suite)
    with open_home(home.path, count_reads=False) as reader:
        answerable = probabilities(reader, name, [(q.text, _scope(q)) for q in with_answer])
        if without:
            found = probabilities(reader, name, [(q.text, _scope(q)) for q in without])
            say(f"{suite.name}, {len(found)} of type {given.type}: {compared(answerable, found)}")
        if len(scopes) > 1:
            found = probabilities(reader, name, [(q.text, following[_scope(q)]) for q in with_answer])
            say(f"{suite.name}, the same {len(found)} in the scope of others: {compared(answerable, found)}")


def _scope(query: SuiteQuery) -> str:
    return query.scope or SHARED_USER


if __name__ == "__main__":
    main()
