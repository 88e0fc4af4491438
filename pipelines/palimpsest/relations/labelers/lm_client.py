"""Calls a model over HTTP: bounded in time and rate, retried with exponential back-off."""

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, cast

from palimpsest.core.types import JsonObject
from palimpsest.relations.labelers.ledger import LmAnswer
from palimpsest.relations.labelers.lm_settings import LmSettings

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.chat.completion_create_params import ResponseFormat


_FIRST_WAIT_S = 0.5


class LmUnavailable(Exception):
    """The server gave no answer, after all attempts."""


@dataclass(frozen=True)
class ChatMessage:
    """One message of a request."""

    role: Literal["system", "user", "assistant"]
    content: str


class RateLimiter:
    """Lets a number of requests through per minute, spread evenly; 0 means no limit."""

    def __init__(self, requests_per_minute: int):
        self._interval_s = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Returns when the next request may start."""
        if not self._interval_s:
            return
        with self._lock:
            now = time.monotonic()
            start = max(self._next, now)
            self._next = start + self._interval_s
        time.sleep(max(0.0, start - now))


class LmClient:
    """A connection to one server, shared by all threads."""

    def __init__(self, settings: LmSettings):
        import openai

        self.settings = settings
        self._openai = openai.OpenAI(
            base_url=settings.url, api_key=settings.key, timeout=settings.timeout_s, max_retries=0
        )
        self._rate_limiter = RateLimiter(settings.requests_per_minute)

    def complete(self, messages: Sequence[ChatMessage], response_format: JsonObject | None = None) -> LmAnswer:
        """Returns the model's answer, truncated ones too: every answer is paid.

        Args:
            messages: the request.
            response_format: the field of that name of a request; None sends none.

        Raises:
            LmUnavailable: the server was unreachable, too slow or too busy, or refused.
        """
        import openai
        import tenacity

        transient = (
            openai.APIConnectionError,
            openai.APITimeoutError,
            openai.RateLimitError,
            openai.InternalServerError,
            openai.ConflictError,
            openai.APIResponseValidationError,
            _InvalidResponse,
        )
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(transient),
            reraise=True,
            stop=tenacity.stop_after_attempt(self.settings.attempts),
            wait=tenacity.wait_exponential_jitter(initial=_FIRST_WAIT_S, max=self.settings.longest_wait_s),
        )
        try:
            return attempts(self._request, messages, response_format)
        except (openai.OpenAIError, _InvalidResponse) as e:
            raise LmUnavailable(type(e).__name__) from None

    def _request(self, messages: Sequence[ChatMessage], response_format: JsonObject | None) -> LmAnswer:
        import openai

        self._rate_limiter.wait()
        try:
            response = self._openai.chat.completions.create(
                model=self.settings.model,
                messages=cast("list[ChatCompletionMessageParam]", [asdict(m) for m in messages]),
                temperature=0.0,
                max_tokens=self.settings.max_tokens,
                seed=0,
                response_format=cast("ResponseFormat", response_format) if response_format else openai.omit,
            )
            text = response.choices[0].message.content or ""
            usage = response.usage
        except (ValueError, AttributeError, IndexError, TypeError) as e:  # a truncated response is not JSON
            raise _InvalidResponse(type(e).__name__) from None
        tokens_in, tokens_out = (usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage else (0, 0)
        return LmAnswer(text, tokens_in, tokens_out, self.settings.cost(tokens_in, tokens_out))


class _InvalidResponse(Exception):
    """The body is not what the protocol defines."""
