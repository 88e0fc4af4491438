"""Takes out of cosines what a memory gains by its number of windows alone.

A memory scores by its best window, and the best of more windows is better by chance. By how much depends on how alike
the windows of a memory are, which differs from collection to collection; so it is not assumed but read, for each query,
off the candidates themselves: nearly all of them are not relevant.
"""

from statistics import NormalDist

import numpy as np

_MIN_WINDOWED = 10  # memories of several windows: of fewer no slope can be read


def expected_maximum(windows: np.ndarray) -> np.ndarray:
    """Returns the expected maximum of n independent standard normal values, 0 for n = 1; after Blom (1958).

    Args:
        windows: how many windows each memory has, 1 or more, shape (memories,).
    """
    counts, at = np.unique(windows, return_inverse=True)
    normal = NormalDist()
    known = [normal.inv_cdf((n - 0.375) / (n + 0.25)) if n > 1 else 0.0 for n in counts.tolist()]
    return np.array(known)[at]


def without_window_bias(cosines: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """Returns cosines less their linear trend over the expected maximum, where that rises.

    Args:
        cosines: of the best window of each candidate, shape (candidates,).
        windows: how many windows each has.
    """
    if np.count_nonzero(windows > 1) < _MIN_WINDOWED:
        return cosines
    expected = expected_maximum(windows)
    centered = expected - expected.mean()
    slope = float(centered @ cosines) / float(centered @ centered) if centered.any() else 0.0
    return cosines - max(slope, 0.0) * expected
