"""Settings of the language model, from the environment alone; the key is never shown or written."""

import os
from dataclasses import dataclass, field

from palimpsest.core.errors import PalimpsestError
from palimpsest.relations.classify.lm.answer_format import ANSWER_FORMATS, AnswerFormat


@dataclass(frozen=True)
class LmSettings:
    """A model behind an OpenAI-compatible server.

    Attributes:
        model: its name there.
        url: the server, up to and with `/v1`.
        key: sent with each request; never in repr, logs, ledger or hashes.
        price_in, price_out: of a million tokens read and written.
        concurrency: requests at once.
        requests_per_minute: 0 means no limit.
        timeout_s: of one request.
        attempts: for one answer, the first included.
        longest_wait_s: between two attempts.
        max_tokens: of an answer.
        answer_format: the form in which a label is requested.
    """

    model: str
    url: str
    key: str = field(default="none", repr=False)
    price_in: float = 0.0
    price_out: float = 0.0
    concurrency: int = 8
    requests_per_minute: int = 0
    timeout_s: float = 60.0
    attempts: int = 6
    longest_wait_s: float = 30.0
    max_tokens: int = 300
    answer_format: AnswerFormat = "text"

    @property
    def key_parts(self) -> tuple[str, ...]:
        """What of these settings an answer depends on: answers in the ledger are found by it."""
        # Answers as text are stored without their form: they are older than any other form.
        return (self.model,) if self.answer_format == "text" else (self.model, self.answer_format)

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """Returns what an answer costs."""
        return (tokens_in * self.price_in + tokens_out * self.price_out) / 1e6


def lm_settings() -> LmSettings:
    """Reads PALIMPSEST_LM and its companions.

    `PALIMPSEST_LM` is MODEL@URL. Optional: PALIMPSEST_LM_KEY, _PRICE (`in,out` for a million tokens), _CONCURRENCY,
    _RPM, _TIMEOUT (seconds), _ATTEMPTS, _FORMAT (text, json_object, json_schema).

    Raises:
        PalimpsestError: it is not set, or a value cannot be read; the message never contains the key.
    """
    named = os.environ.get("PALIMPSEST_LM", "")
    model, at, url = named.rpartition("@")
    if not at or not model or not url.startswith(("http://", "https://")):
        raise PalimpsestError("PALIMPSEST_LM: must be MODEL@URL, such as qwen3@http://127.0.0.1:8000/v1; set it")
    prices = _numbers("PRICE", "0,0")
    if len(prices) != 2:
        raise PalimpsestError("PALIMPSEST_LM_PRICE: must be two numbers, IN,OUT for a million tokens; fix it")
    return LmSettings(
        model=model,
        url=url.rstrip("/"),
        key=os.environ.get("PALIMPSEST_LM_KEY") or "none",
        price_in=prices[0],
        price_out=prices[1],
        concurrency=max(1, int(_numbers("CONCURRENCY", "8")[0])),
        requests_per_minute=int(_numbers("RPM", "0")[0]),
        timeout_s=_numbers("TIMEOUT", "60")[0],
        attempts=max(1, int(_numbers("ATTEMPTS", "6")[0])),
        answer_format=_answer_format(),
    )


def _answer_format() -> AnswerFormat:
    named = os.environ.get("PALIMPSEST_LM_FORMAT") or "text"
    for known in ANSWER_FORMATS:
        if named == known:
            return known
    raise PalimpsestError(f"PALIMPSEST_LM_FORMAT: {named[:40]!r} must be one of {', '.join(ANSWER_FORMATS)}; fix it")


def _numbers(name: str, default: str) -> list[float]:
    text = os.environ.get(f"PALIMPSEST_LM_{name}") or default
    try:
        found = [float(x) for x in text.split(",")]
    except ValueError:
        found = [-1.0]
    if any(not 0 <= x < 1e9 for x in found):
        raise PalimpsestError(f"PALIMPSEST_LM_{name}: {text[:40]!r} must be a number of 0 or more; fix it")
    return found
