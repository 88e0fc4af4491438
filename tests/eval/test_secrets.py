"""The labelled set of secrets: its size, and what the detector finds of the half that it was not written with."""

from tests.secrets.measure import examples, measure_detection


def test_the_labelled_set_is_large_enough_and_secrets_of_the_held_out_half_are_found():
    tuned, held_out_half = examples(held_out=False), examples(held_out=True)
    for half in (tuned, held_out_half):
        assert sum(e.secret is not None for e in half) >= 200
        assert sum(e.secret is None for e in half) >= 400
        assert len({e.kind for e in half if e.secret is not None}) >= 12
    assert not {e.text for e in tuned} & {e.text for e in held_out_half}
    assert held_out_half == examples(held_out=True)
    metrics = measure_detection(examples(held_out=True))
    assert metrics.recall >= 0.95, [e.text for e in metrics.missed]
    assert metrics.false_alarms <= 0.01, [e.text for e in metrics.alarms]
