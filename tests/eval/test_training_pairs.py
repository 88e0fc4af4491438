"""The pairs that the shipped labeler is trained on: reproducible, and held out by domain."""

import numpy as np

from palimpsest.eval.labels.training.generated_facts import generated_pairs
from palimpsest.eval.labels.training.mined_pairs import mined_pairs
from palimpsest.eval.labels.training.training_pairs import FOLDS, encoder_pairs, folds, training_pairs
from palimpsest.relations.classify.encoder.held_out import encode_held_out
from palimpsest.relations.classify.features.prepare_pair import compute_features, prepare_pair
from palimpsest.relations.classify.model.golden_pairs import written_pairs
from palimpsest.relations.classify.model.relation_model import to_points
from palimpsest.relations.classify.model.shipped_model import default_model
from palimpsest.relations.classify.model.train_on_pairs import training_order
from palimpsest.relations.classify.pairs_file import pair_from_row


def test_generated_and_mined_pairs_are_the_same_in_every_run() -> None:
    assert generated_pairs() == generated_pairs() != generated_pairs(seed=1)
    written = written_pairs("train")
    assert mined_pairs(written) == mined_pairs(written[::-1])


def test_a_mined_pair_joins_two_groups_of_one_domain_and_is_never_an_update() -> None:
    written = written_pairs("train")
    groups = {text: r["group"] for r in written for text in (r["older"], r["newer"])}
    for pair in mined_pairs(written):
        assert groups[pair["older"]] != groups[pair["newer"]] and pair["label"] == "NONE"


def test_no_test_domain_is_trained_on_and_a_domain_is_in_one_fold() -> None:
    rows = encoder_pairs()
    test = {r["domain"] for r in written_pairs("test")}
    fold_of: dict[str, set[int]] = {}
    for row, fold in zip(rows, folds(rows), strict=True):
        fold_of.setdefault(f"domain {row['domain']}" if "domain" in row else row["group"], set()).add(fold)
    assert test and not {f"domain {name}" for name in test} & fold_of.keys()
    assert {len(f) for f in fold_of.values()} == {1}
    assert set().union(*fold_of.values()) == set(range(FOLDS))


def test_the_shipped_labeler_was_trained_on_these_pairs_by_this_code() -> None:
    """Where this fails, train it again: `make labeler`."""
    model, rows = default_model(), training_order(training_pairs())[:60]
    table = compute_features([prepare_pair(pair_from_row(r)) for r in rows], encode_held_out)
    assert table.names == model.feature_names
    assert np.array_equal(to_points(table.rows, model.mean, model.scale), model.training_points[:60])
