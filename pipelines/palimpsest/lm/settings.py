"""Settings of the language model, from the environment alone; the key is never shown or written."""

import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject
from palimpsest.lm.local_model import find_model, model_key

if TYPE_CHECKING:
    import dspy


# The form of a model's answer: marked text, or JSON that the server keeps to a schema.
#
# Small models rarely keep to a form that is only described to them; a server that constrains the answer makes every
# answer readable. It makes none of them right.

AnswerFormat = Literal["text", "json_object", "json_schema"]
"""`text`: fields marked by headers, which any server gives. The other two are values of `response_format.type`:
`json_object` (llama-cpp-python, with the schema next to it) and `json_schema` (as OpenAI's own API names it)."""

ANSWER_FORMATS: tuple[AnswerFormat, ...] = get_args(AnswerFormat)


def answer_adapter(answer_format: AnswerFormat) -> "dspy.Adapter":
    """Returns DSPy's adapter that describes this form in the prompt and reads it from the answer."""
    import dspy

    if answer_format == "text":
        return dspy.ChatAdapter(use_json_adapter_fallback=False)
    return dspy.JSONAdapter(use_native_function_calling=False)


def response_format(answer_format: AnswerFormat, name: str, schema: JsonObject) -> JsonObject | None:
    """Returns `response_format` of a request for an answer of this schema, None for text."""
    if answer_format == "text":
        return None
    if answer_format == "json_object":
        return {"type": "json_object", "schema": schema}
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


@dataclass(frozen=True)
class LmSettings:
    """A model behind an OpenAI-compatible server, or in this process: `served` starts its server.

    Attributes:
        model: its name there.
        url: the server, up to and with `/v1`; of a local model its name.
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

    `PALIMPSEST_LM` is `local`, `local:0.5b`, `local:` and the path of a GGUF file, or MODEL@URL. Optional:
    PALIMPSEST_LM_KEY, _PRICE (`in,out` for a million tokens), _CONCURRENCY, _RPM, _TIMEOUT (seconds), _ATTEMPTS,
    _FORMAT (text, json_object, json_schema).

    Raises:
        PalimpsestError: it is not set, or a value cannot be read; the message never contains the key.
    """
    named = os.environ.get("PALIMPSEST_LM", "")
    local = find_model(named)
    model, at, url = named.rpartition("@") if local is None else (model_key(local), "@", named)
    if not at or not model or (local is None and not url.startswith(("http://", "https://"))):
        raise PalimpsestError(
            "PALIMPSEST_LM: must be local, or MODEL@URL such as qwen3@http://127.0.0.1:8000/v1; set it"
        )
    prices = _numbers("PRICE", "0,0")
    if len(prices) != 2:
        raise PalimpsestError("PALIMPSEST_LM_PRICE: must be two numbers, IN,OUT for a million tokens; fix it")
    return LmSettings(
        model=model,
        url=url.rstrip("/"),
        key=os.environ.get("PALIMPSEST_LM_KEY") or "none",
        price_in=prices[0],
        price_out=prices[1],
        concurrency=max(1, int(_numbers("CONCURRENCY", "8" if local is None else "1")[0])),
        requests_per_minute=int(_numbers("RPM", "0")[0]),
        timeout_s=_numbers("TIMEOUT", "60" if local is None else "600")[0],
        attempts=max(1, int(_numbers("ATTEMPTS", "6")[0])),
        answer_format=_answer_format("text" if local is None else "json_object"),
    )


def _answer_format(default: AnswerFormat) -> AnswerFormat:
    named = os.environ.get("PALIMPSEST_LM_FORMAT") or default
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


# A limit on what calls of a language model may cost, kept by threads that share it.

_MIN_CHARACTERS_A_TOKEN = 3  # so that a call's highest cost is known before it is made


def highest_cost(settings: LmSettings, characters: int, fixed_tokens: int = 0) -> float:
    """Returns the most that a call can cost whose prompt has so many characters, besides a fixed number of tokens."""
    return settings.cost(fixed_tokens + characters // _MIN_CHARACTERS_A_TOKEN + 1, settings.max_tokens)


class Budget:
    """What was spent, and what calls in progress may still cost. Their sum never passes the limit.

    Args:
        limit: None for none.

    Attributes:
        spent: by the calls that ended.
    """

    def __init__(self, limit: float | None):
        self.limit, self.spent = limit, 0.0
        self._reserved = 0.0
        self._lock = threading.Lock()

    def reserve(self, cost: float) -> bool:
        """Reserves the highest cost of a call; returns whether the budget covers it."""
        with self._lock:
            if self.limit is not None and self.spent + self._reserved + cost > self.limit:
                return False
            self._reserved += cost
            return True

    def settle(self, reserved: float, spent: float) -> None:
        """Replaces what a call reserved by what it cost."""
        with self._lock:
            self._reserved -= reserved
            self.spent += spent
