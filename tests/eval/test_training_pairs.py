"""The pairs that chooser and judge are trained on: reproducible, without those of test domains."""

from palimpsest.relations.labelers.change_encoder import PAIR_CLASSES
from palimpsest.relations.labelers.pairs_file import golden_pairs, written_pairs
from palimpsest_eval.training.training_pairs import class_numbers, generated_pairs, training_pairs


def test_generated_pairs_are_the_same_in_every_run_and_have_each_class_of_their_label() -> None:
    assert generated_pairs() == generated_pairs() != generated_pairs(seed=1)
    pair = golden_pairs("train")[0] | {"label": "EXTEND"}
    names = [PAIR_CLASSES[n] for n in class_numbers(pair)]
    assert names == ["extend", "conditional"]
    assert [PAIR_CLASSES[n] for n in class_numbers(pair | {"conflict": "conditional"})] == ["conditional"]


def test_no_test_domain_and_no_test_pair_is_trained_on() -> None:
    rows = training_pairs()
    tested = [*golden_pairs("test"), *written_pairs("test")]
    assert not {r["domain"] for r in tested if "domain" in r} & {r.get("domain") for r in rows}
    assert not {r["id"] for r in golden_pairs("test")} & {r["id"] for r in rows if "domain" not in r}
