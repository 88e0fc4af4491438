"""What a memory gains by its number of windows alone is taken out of its cosine."""

import numpy as np
import pytest

from palimpsest.query.ranking.scoring import expected_maximum, without_window_bias


def test_the_expected_maximum_of_normal_values_is_blom_s_approximation():
    # By tables of order statistics: 0, .564, .846, 1.163, 1.539.
    found = expected_maximum(np.array([10, 1, 2, 3, 5]))
    assert found == pytest.approx([1.547, 0.0, 0.589, 0.869, 1.180], abs=0.002)
    assert found == pytest.approx([1.539, 0.0, 0.564, 0.846, 1.163], abs=0.03)


def best_of(windows: np.ndarray, seed: int, spread: float) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return np.array([0.2 + spread * draw.standard_normal(n).max() for n in windows])


def test_memories_that_fit_alike_score_alike_whatever_their_number_of_windows():
    windows = np.repeat([1, 8], 2000)
    cosines = best_of(windows, 7, 0.1)
    assert cosines[2000:].mean() - cosines[:2000].mean() > 0.13
    fair = without_window_bias(cosines, windows)
    assert fair[2000:].mean() - fair[:2000].mean() == pytest.approx(0.0, abs=0.01)


def test_windows_that_are_all_alike_give_no_advantage_and_none_is_taken_out():
    windows = np.repeat([1, 8], 50)
    cosines = np.tile([0.1, 0.5], 50)
    assert without_window_bias(cosines, windows) == pytest.approx(cosines)


def test_a_longer_memory_that_scores_less_is_not_lifted():
    windows = np.repeat([1, 4], 20)
    cosines = np.repeat([0.5, 0.3], 20)
    assert without_window_bias(cosines, windows) is not None
    assert without_window_bias(cosines, windows) == pytest.approx(cosines)


@pytest.mark.parametrize("windows", [[1] * 20, [1] * 15 + [4] * 5, [3] * 20])
def test_without_several_memories_of_different_lengths_nothing_changes_the_order(windows):
    cosines = np.linspace(0.1, 0.9, 20)
    found = without_window_bias(cosines, np.array(windows))
    assert np.diff(found) == pytest.approx(np.diff(cosines))
