"""A language model that answers by rules, behind the API of OpenAI: it proves what a peer asks, never how well."""

from collections.abc import Sequence

from palimpsest.eval.testing.fake_lm_server import FakeLMServer


def scripted_lm() -> FakeLMServer:
    """Returns the server; it counts the requests."""
    return FakeLMServer({}, chat=answer)


def answer(messages: Sequence[str]) -> str:
    """Returns the answer to the messages of a request."""
    return "{}"
