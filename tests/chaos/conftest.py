import multiprocessing

import pytest


@pytest.fixture(scope="module")
def processes() -> multiprocessing.context.ForkServerContext:
    """Processes that have the project imported when they start.

    Nothing of it may compute with Polars while it is imported: its threads do not survive a fork, which waits for them.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.chaos.child"])
    return context
