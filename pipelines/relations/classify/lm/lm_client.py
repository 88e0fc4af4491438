"""Asks a model over HTTP: bounded in time and rate, tried again with growing waits, each answer put into the ledger."""

import threading
import time
from typing import Any

from palimpsest.core.progress import say
from palimpsest.relations.classify.lm.ledger import Ledger, LmAnswer
from palimpsest.relations.classify.lm.lm_settings import LmSettings


class LmUnavailable(Exception):
    """The server gave no answer, after all attempts; the pair stays open."""


class RateLimiter:
    """Lets so many requests through a minute, spread evenly."""

    def __init__(self, a_minute: int):
        self._gap_s = 60.0 / a_minute if a_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Returns when the next request may start."""
        if not self._gap_s:
            return
        with self._lock:
            now = time.monotonic()
            mine = max(self._next, now)
            self._next = mine + self._gap_s
        time.sleep(max(0.0, mine - now))


class LmClient:
    """One server, shared by all threads."""

    def __init__(self, settings: LmSettings):
        import openai

        self.settings = settings
        self._client = openai.OpenAI(
            base_url=settings.url, api_key=settings.key, timeout=settings.timeout_s, max_retries=0
        )
        self._pace = RateLimiter(settings.requests_per_minute)
        self.requests = 0
        self.attempts_failed = 0
        self._lock = threading.Lock()

    def complete(self, messages: list[dict[str, str]]) -> LmAnswer:
        """Returns the model's answer, cut ones too: whatever was answered is paid.

        Raises:
            LmUnavailable: the server was not there, was too slow or too busy, or refused.
        """
        import openai
        import tenacity

        passing = (
            openai.APIConnectionError,
            openai.APITimeoutError,
            openai.RateLimitError,
            openai.InternalServerError,
            openai.ConflictError,
            openai.APIResponseValidationError,
            _Cut,
        )
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(passing),
            reraise=True,
            stop=tenacity.stop_after_attempt(self.settings.attempts),
            wait=tenacity.wait_exponential_jitter(initial=0.5, max=self.settings.longest_wait_s),
        )
        try:
            return attempts(self._once, messages)
        except (openai.OpenAIError, _Cut) as e:
            raise LmUnavailable(type(e).__name__) from None

    def _once(self, messages: list[dict[str, str]]) -> LmAnswer:
        self._pace.wait()
        with self._lock:
            self.requests += 1
        try:
            got = self._client.chat.completions.create(
                model=self.settings.model,
                messages=messages,
                temperature=0.0,  # type: ignore[arg-type]
                max_tokens=self.settings.max_tokens,
                seed=0,
            )
            text = got.choices[0].message.content or ""
            used = got.usage
        except Exception as e:
            with self._lock:
                self.attempts_failed += 1
            if isinstance(e, (ValueError, AttributeError, IndexError, TypeError)):
                raise _Cut(type(e).__name__) from None  # an answer cut on its way is no JSON
            raise
        spent = (used.prompt_tokens or 0, used.completion_tokens or 0) if used else (0, 0)
        return LmAnswer(text, *spent, self.settings.cost(*spent))


class _Cut(Exception):
    """The body was not what the protocol says."""


class PairEngine:
    """DSPy's engine for one pair: answers from the ledger where the pair was asked before, else from the server."""

    def __init__(self, client: LmClient, ledger: Ledger, key: str, newer_id: str, older_id: str, program: str):
        self._client, self._ledger = client, ledger
        self._key, self._ids, self._program = key, (newer_id, older_id), program
        self.answer: LmAnswer | None = None
        self.paid = False

    def complete(self, request: Any) -> Any:
        """Returns the answer in DSPy's own terms."""
        from dspy import lm15

        answer = self._ledger.claim(self._key, *self._ids)
        if answer is None:
            try:
                answer = self._client.complete(_messages(request))
            except BaseException:
                self._ledger.release(self._key)
                raise
            self._ledger.put(self._key, *self._ids, self._program, self._client.settings.model, answer)
            self.paid = True
        self.answer = answer
        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant(answer.text or " "),
            finish_reason="stop",
            usage=lm15.Usage(input_tokens=answer.tokens_in, output_tokens=answer.tokens_out),
        )


def _messages(request: Any) -> list[dict[str, str]]:
    system = request.system
    told = system if isinstance(system, str) else "".join(p.text for p in system or () if hasattr(p, "text"))
    messages = [{"role": "system", "content": told}] if told else []
    for m in request.messages:
        role = {"developer": "system"}.get(m.role, m.role)
        messages.append({"role": role, "content": "".join(p.text for p in m.parts if hasattr(p, "text"))})
    return messages


def log_failures(failures: int, why: str) -> None:
    """Says that the server did not answer."""
    say(f"labels: {failures} pairs without an answer ({why}); they are asked again by the next build")
