"""Our metrics against pytrec_eval itself, on rankings of real suites: graded judgements and ties in the scores."""

import os
from pathlib import Path

import pytest

from palimpsest.query.reader import open_home
from palimpsest.query.request.types import Scope
from palimpsest_eval.metrics import evaluate
from palimpsest_eval.runs.suite_runs import suite_home
from palimpsest_eval.suites.suite import collection_name, corpus_id, load_suite

pytestmark = pytest.mark.suite
SUITES = Path(os.environ.get("PALIMPSEST_SUITES") or Path(__file__).resolve().parents[3] / "shared/suites")
NAMES = {
    "P@5": "P_5", "R@5": "recall_5", "R@10": "recall_10", "Hit@5": "success_5", "nDCG@10": "ndcg_cut_10",
    "MRR@10": "recip_rank",
}  # fmt: skip


@pytest.mark.parametrize("name", ["cranfield", "locomo"])
def test_metrics_equal_pytrec_evals_to_nine_digits(name):
    import pytrec_eval

    if not (SUITES / name).is_dir():
        pytest.skip(f"needs suite {name} in {SUITES}")
    suite = load_suite(SUITES / name)
    home, _ = suite_home(SUITES / name)
    ranked = {}
    with open_home(home.path) as reader:
        for q in suite.judged:
            scope = Scope(collection_name(suite), q.scope or "shared")
            found = reader.search(q.text, scope, k=10, strategy="hybrid", budget_tokens=0)
            ranked[q.query_id] = list({corpus_id(m.uri): float(m.score) for m in found.memories}.items())
    qrels = {q.query_id: dict(suite.qrels[q.query_id]) for q in suite.judged}
    ours = evaluate(ranked, qrels, tuple(NAMES)).per_query
    # What pytrec_eval is given is ordered as we rank: it would break ties by document id.
    run = {q: {d: float(len(docs) - i) for i, (d, _) in enumerate(docs)} for q, docs in ranked.items() if docs}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(NAMES.values())).evaluate(run)
    worst = max(
        abs(ours[q][mine] - theirs.get(q, {}).get(name_there, 0.0)) for q in ours for mine, name_there in NAMES.items()
    )
    assert len(ours) == len(suite.judged) and worst < 1e-9
