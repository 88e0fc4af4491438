import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest_eval.metrics import compare_paired, loss_probability


def falls(n, lost):
    return compare_paired([1.0] * n, [0.0] * lost + [1.0] * (n - lost))


def test_probability_of_a_loss_equals_the_hand_count():
    # Five losses of one: of the 32 ways to flip their signs only the one seen sums as low.
    assert loss_probability(np.array([-1.0] * 5 + [0.0] * 95)) == pytest.approx(1 / 32)
    # Two losses and a gain, all of one: sums of -1 or less come in 4 of 8 ways.
    assert loss_probability(np.array([-1.0, -1.0, 1.0])) == pytest.approx(4 / 8)
    assert loss_probability(np.array([-1.0])) == 0.5
    assert loss_probability(np.zeros(10)) == 1.0


def test_noise_is_no_loss_and_a_loss_is_also_in_a_small_set():
    assert not falls(100, 4).lost, "p is 1/16"
    assert falls(100, 5).lost, "p is 1/32, effect .05"
    assert not falls(1000, 19).lost, "significant, but less than the minimum effect"
    assert falls(1000, 20).lost
    assert not compare_paired([0.0] * 50, [1.0] * 50).lost
    assert falls(4, 1).lost
    assert falls(1, 1).lost
    assert not falls(4, 0).lost
    assert falls(4, 0).smallest_loss == pytest.approx(0.25)
    assert falls(100, 0).smallest_loss == pytest.approx(0.05)
    assert falls(1000, 0).smallest_loss == pytest.approx(0.02)
    assert compare_paired([0.0, 0.0], [0.0, 0.0]).smallest_loss is None
    rng = np.random.default_rng(3)
    old, change = rng.random(60), rng.normal(-0.03, 0.2, 60)
    new = np.clip(old + change, 0, 1)
    assert compare_paired(old.tolist(), new.tolist()) == compare_paired(old.tolist(), new.tolist())


def test_symmetric_noise_rarely_fails():
    rng = np.random.default_rng(11)
    alarms = 0
    for _ in range(15):
        old = rng.integers(0, 2, 120).astype(float)
        new = old.copy()
        flipped = rng.choice(120, 10, replace=False)
        new[flipped] = 1 - new[flipped]
        alarms += compare_paired(old.tolist(), new.tolist()).lost
    assert alarms <= 2


@settings(max_examples=25)
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=40))
def test_an_identical_run_never_fails_and_losing_everything_always_does(values):
    same = compare_paired(values, values)
    assert not same.lost
    if any(values):
        assert same.smallest_loss is not None
        total = compare_paired(values, [0.0] * len(values))
        assert total.lost == (sum(values) / len(values) >= 0.02)
