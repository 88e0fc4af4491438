"""Most tests here have a handful of memories with vectors of words, and are about all that a search finds.

Where results end is tested in test_relevance.py, and with real vectors in the golden sets.
"""

import pytest


@pytest.fixture(autouse=True)
def every_result(monkeypatch):
    monkeypatch.setenv("PALIMPSEST_MIN_RELEVANCE", "0")
