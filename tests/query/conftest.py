"""Most tests here have a handful of memories with vectors of words, and are about all that a search finds.

Where results end, and their order of relevance, are tested in test_relevance.py, and with real vectors in golden sets.
"""

import pytest


@pytest.fixture(autouse=True, scope="module")
def every_result():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PALIMPSEST_MIN_RELEVANCE", "0")
        patch.setenv("PALIMPSEST_RERANKER", "none")
        yield
