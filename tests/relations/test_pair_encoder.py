"""The pair encoder: one pair at a time, the same whatever else is asked."""

import numpy as np

from palimpsest.relations.classify.encoder.held_out import encode_held_out, save_held_out
from palimpsest.relations.classify.encoder.pair_encoder import ENCODER_CLASSES, pair_encoder
from palimpsest.relations.classify.model.golden_pairs import written_pairs

PAIRS = [
    ("The office is in Lindow.", "The office has moved to Brakel."),
    ("The office is in Lindow.", "The office is in Lindow, on the third floor."),
    ("Ana likes tea.", "word " * 3000),
    ("", ""),
]


def test_probabilities_do_not_depend_on_the_other_pairs_and_sum_to_one() -> None:
    together = pair_encoder().predict(PAIRS * 20)
    alone = np.vstack([pair_encoder().predict([pair]) for pair in PAIRS])
    assert together.shape == (80, len(ENCODER_CLASSES)) and together.dtype == np.float32
    assert np.array_equal(together[:4], alone) and np.array_equal(together[-4:], alone)
    assert np.allclose(alone.sum(axis=1), 1, atol=1e-4)
    assert pair_encoder().predict([]).shape == (0, len(ENCODER_CLASSES))


def test_a_change_and_a_detail_differ_though_they_share_their_words() -> None:
    change, detail = pair_encoder().predict(PAIRS[:2])
    update = ENCODER_CLASSES.index("update")
    assert change.argmax() == update != detail.argmax()


def test_training_pairs_have_the_probabilities_of_an_encoder_that_did_not_see_them(tmp_path) -> None:
    known = [(r["older"], r["newer"]) for r in written_pairs("train")[:40]]
    unknown = [("The lamp is red.", "The lamp was painted blue.")]
    found = encode_held_out(known + unknown)
    assert np.array_equal(found[40:], pair_encoder().predict(unknown))
    seen = pair_encoder().predict(known)
    assert not np.allclose(found[:40], seen, atol=0.02)
    save_held_out(tmp_path / "held_out.npz", known, found[:40])
    with np.load(tmp_path / "held_out.npz", allow_pickle=False) as file:
        assert file["probabilities"].shape == (40, 6) and len(set(file["keys"].tolist())) == len(set(known))
