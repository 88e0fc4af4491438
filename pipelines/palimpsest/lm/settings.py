"""Settings of the language model, from the environment alone; the key is never shown or written."""

import functools
import os
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject
from palimpsest.core.imports import import_with_json_schema
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
    dspy = import_with_json_schema("dspy")

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
    """A model behind an OpenAI-compatible server, of a provider that LiteLLM knows, or in this process.

    Attributes:
        model: its name there; of a provider, PROVIDER/MODEL.
        url: the server, up to and with `/v1`; empty for a provider, whose own variables say where it is; the name of a
            local model, whose server `served` starts.
        key: sent with each request; never in repr, logs, ledger or hashes. Empty for a provider: its own variable.
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
    key: str = field(default="", repr=False)
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

    @property
    def is_local(self) -> bool:
        """Whether the model runs in this process."""
        return bool(self.url) and not self.url.startswith(("http://", "https://"))

    @property
    def where(self) -> str:
        """The model and its server, for people."""
        return f"{self.model} at {self.url}" if self.url else self.model

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """Returns what an answer costs."""
        return (tokens_in * self.price_in + tokens_out * self.price_out) / 1e6


def lm_settings() -> LmSettings:
    """Reads PALIMPSEST_LM and its companions.

    `PALIMPSEST_LM` is MODEL@URL, PROVIDER/MODEL as LiteLLM names them, or what `find_model` reads. Optional:
    PALIMPSEST_LM_KEY, _PRICE (`in,out` for a million tokens), _CONCURRENCY, _RPM, _TIMEOUT (seconds), _ATTEMPTS,
    _MAX_TOKENS (of an answer, reasoning included; programs that need more have more), _FORMAT (text, json_object,
    json_schema).
    A provider's model has the prices of LiteLLM's table, in US dollars, unless _PRICE is set, and answers as
    `json_schema` where the provider has it.

    Raises:
        PalimpsestError: it is not set, or a value cannot be read; the message never contains the key.
    """
    named = os.environ.get("PALIMPSEST_LM", "")
    local = find_model(named)
    model, _, url = named.rpartition("@") if local is None else (model_key(local), "@", named)
    if local is None and (not model or not url.startswith(("http://", "https://"))):
        model, url = named, ""
        if not _PROVIDER_MODEL.fullmatch(named):
            raise PalimpsestError(
                "PALIMPSEST_LM: must be MODEL@URL, such as qwen3@http://127.0.0.1:8000/v1, or PROVIDER/MODEL, such as"
                " openai/gpt-4o-mini, or local; set it"
            )
    listed = "0,0" if url else listed_prices(model)
    prices = _numbers("PRICE", listed)
    if len(prices) != 2:
        raise PalimpsestError("PALIMPSEST_LM_PRICE: must be two numbers, IN,OUT for a million tokens; fix it")
    return LmSettings(
        model=model,
        url=url.rstrip("/"),
        key=os.environ.get("PALIMPSEST_LM_KEY", ""),
        price_in=prices[0],
        price_out=prices[1],
        concurrency=max(1, int(_numbers("CONCURRENCY", "8" if local is None else "1")[0])),
        requests_per_minute=int(_numbers("RPM", "0")[0]),
        timeout_s=_numbers("TIMEOUT", "60" if local is None else "1800")[0],
        attempts=max(1, int(_numbers("ATTEMPTS", "6" if local is None else "1")[0])),
        max_tokens=max(1, int(_numbers("MAX_TOKENS", "300")[0])),
        answer_format=_answer_format("json_object" if local else "text" if url else "json_schema"),
    )


_PROVIDER_MODEL = re.compile(r"[a-z][a-z0-9_]*/\S+")


@functools.cache
def litellm() -> Any:
    """Returns the library of providers, which sends nothing but the calls: tables are those that it ships."""
    for name, value in _LITELLM_SETTINGS.items():
        os.environ.setdefault(name, value)
    import litellm as library

    library.telemetry = False
    library.suppress_debug_info = True
    return library


_LITELLM_SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOG": "ERROR",
}


@functools.cache
def listed_prices(model: str) -> str:
    """Returns `IN,OUT` of a provider's model in LiteLLM's table, `0,0` where it has none.

    Raises:
        PalimpsestError: LiteLLM knows no such provider.
    """
    library = litellm()
    provider, _, name = model.partition("/")
    if provider not in library.provider_list:
        raise PalimpsestError(
            f"PALIMPSEST_LM: no provider {provider[:40]!r}; docs.litellm.ai/docs/providers lists them, or name a server"
            " as MODEL@URL"
        )
    found = library.model_cost.get(model) or library.model_cost.get(name) or {}
    return ",".join(repr(1e6 * (found.get(f"{side}_cost_per_token") or 0.0)) for side in ("input", "output"))


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


def highest_cost(settings: LmSettings, texts: Iterable[str], fixed_tokens: int = 0) -> float:
    """Returns the most that a call can cost whose prompt has these texts, besides a fixed number of tokens.

    A letter beyond ASCII may be a token by itself, or several: each of its bytes counts as a character does.
    """
    read = sum(len(t.encode("utf-8", "replace")) if not t.isascii() else len(t) for t in texts)
    return settings.cost(fixed_tokens + read // _MIN_CHARACTERS_A_TOKEN + 1, settings.max_tokens)


class Budget:
    """What was spent, and what calls in progress may still cost. Their sum never passes the limit.

    Args:
        limit: None for none.
        name: what sets it, for messages.

    Attributes:
        spent: by the calls that ended.
    """

    def __init__(self, limit: float | None, name: str = "--max-cost"):
        self.limit, self.spent, self.name = limit, 0.0, name
        self._reserved = 0.0
        self._lock = threading.Lock()

    def check_price(self, settings: LmSettings) -> None:
        """Checks that calls have a price, where there is a limit.

        Raises:
            PalimpsestError: they have none.
        """
        if self.limit is not None and not (settings.price_in or settings.price_out):
            raise PalimpsestError(f"{self.name}: needs a price; set PALIMPSEST_LM_PRICE=IN,OUT for a million tokens")

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


def as_budget(limit: float | Budget | None) -> Budget:
    """Returns a budget of this limit, or the same where it is one."""
    return limit if isinstance(limit, Budget) else Budget(limit)


def budget_from_environment(variable: str) -> Budget:
    """Returns the budget of all calls of a purpose in this process.

    Raises:
        PalimpsestError: the variable is not a number of 0 or more.
    """
    text = os.environ.get(variable, "")
    try:
        limit = float(text) if text else None
    except ValueError:
        limit = -1.0
    if limit is not None and not 0 <= limit < float("inf"):
        raise PalimpsestError(f"{variable}: {text[:40]!r} must be a number of 0 or more; fix it")
    return Budget(limit, variable)
