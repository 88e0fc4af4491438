"""Calls a model over HTTP: bounded in time and rate, retried with exponential back-off."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject
from palimpsest.core.needles import RowSearch
from palimpsest.core.parallel import process_started
from palimpsest.lm.local_model import served
from palimpsest.lm.settings import Budget, LmSettings, litellm

# The answers of a language model, stored before they are used: no answered call is paid twice.
#
# A call is recorded before it is made: two processes never make the same one, and the calls of a killed process, which
# may have been paid, are counted.

_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, newer_id TEXT NOT NULL, older_id TEXT NOT NULL, program TEXT NOT NULL, model TEXT NOT NULL,
    answer TEXT NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, cost REAL NOT NULL
) WITHOUT ROWID
"""
_CALLS = """
CREATE TABLE IF NOT EXISTS calls (
    key TEXT NOT NULL, newer_id TEXT NOT NULL, older_id TEXT NOT NULL, pid INTEGER NOT NULL, began TEXT NOT NULL
)
"""
_POLL_INTERVAL_S = 0.1  # while another process makes the same call
_PUT = "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_GET = "SELECT answer, tokens_in, tokens_out, cost FROM answers WHERE key = ?"
_ROWS = {"answers": "SELECT * FROM answers", "calls": "SELECT * FROM calls"}
_DELETE = {"answers": "DELETE FROM answers WHERE key = ?", "calls": "DELETE FROM calls WHERE key = ?"}
_ROWS_PER_FETCH = 1000
_TOTALS = (
    "SELECT count(*), coalesce(sum(tokens_in), 0), coalesce(sum(tokens_out), 0), coalesce(sum(cost), 0) FROM answers"
)


_CUT = "\n(cut: out of tokens)"


@dataclass(frozen=True)
class LmAnswer:
    """The text of an answer, its tokens, and its cost at the prices of that time."""

    text: str
    tokens_in: int
    tokens_out: int
    cost: float

    @property
    def is_cut(self) -> bool:
        """Whether it ended because it had no more tokens; those of a model's reasoning count."""
        return self.text.endswith(_CUT)

    @property
    def said(self) -> str:
        """What the model wrote."""
        return self.text.removesuffix(_CUT)


@dataclass(frozen=True)
class LedgerTotals:
    """Sums over all stored answers, and the calls whose process died before it stored an answer.

    Those may have been answered, and paid: a server's own count is between `calls` and `calls` + `unanswered`.
    """

    calls: int
    tokens_in: int
    tokens_out: int
    cost: float
    unanswered: int


class Ledger:
    """Answers by key (pair, program, model) in a SQLite file: WAL, each committed, deleted bytes overwritten."""

    def __init__(self, path: Path | None):
        """Opens it; without a path it is in memory, and ends with the process."""
        self._lock = threading.Lock()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path or ":memory:", check_same_thread=False, timeout=60, isolation_level=None)
        if path is not None:
            path.chmod(0o600)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA secure_delete=ON")
        self._db.execute(_TABLE)
        self._db.execute(_CALLS)
        self._process = (os.getpid(), process_started(os.getpid()) or "")

    def get(self, key: str) -> LmAnswer | None:
        """Returns the answer of a key, None where there is none."""
        with self._lock:
            row = self._db.execute(_GET, [key]).fetchone()
        return LmAnswer(*row) if row else None

    def put(self, key: str, newer_id: str, older_id: str, program: str, model: str, answer: LmAnswer) -> None:
        """Stores an answer; it is on disk when this returns. The first answer of a key stays."""
        values = [key, newer_id, older_id, program, model]
        with self._lock, self._transaction():
            self._db.execute(_PUT, [*values, answer.text, answer.tokens_in, answer.tokens_out, answer.cost])
            self._end(key)

    def claim(self, key: str, newer_id: str, older_id: str) -> LmAnswer | None:
        """Returns the answer of a key, or None where the caller must make the call now, then `put` or `release`.

        Waits while another live process makes the same call.
        """
        if known := self.get(key):
            return known
        while True:
            with self._lock, self._transaction():
                if row := self._db.execute(_GET, [key]).fetchone():
                    return LmAnswer(*row)
                callers = self._db.execute("SELECT pid, began FROM calls WHERE key = ?", [key]).fetchall()
                if not any(_is_alive(*caller) for caller in callers):
                    self._db.execute(
                        "INSERT INTO calls VALUES (?, ?, ?, ?, ?)", [key, newer_id, older_id, *self._process]
                    )
                    return None
            time.sleep(_POLL_INTERVAL_S)

    def release(self, key: str) -> None:
        """Ends a claimed call without an answer."""
        with self._lock:
            self._end(key)

    def totals(self) -> LedgerTotals:
        """Returns the totals of all stored answers."""
        with self._lock:
            calls, tokens_in, tokens_out, cost = self._db.execute(_TOTALS).fetchone()
            callers = self._db.execute("SELECT pid, began FROM calls").fetchall()
        unanswered = sum(not _is_alive(*caller) for caller in callers)
        return LedgerTotals(calls, tokens_in, tokens_out, cost, unanswered)

    def forget(self, probes: RowSearch) -> int:
        """Deletes the answers that name or quote one of the probes, in any column; returns how many."""
        removed = 0
        with self._lock:
            for table in ("answers", "calls"):
                rows = self._db.execute(_ROWS[table])
                found: list[tuple[str]] = []
                while batch := rows.fetchmany(_ROWS_PER_FETCH):
                    found += [(batch[i][0],) for i in probes.rows_in(["\n".join(map(str, row)) for row in batch])]
                self._db.executemany(_DELETE[table], found)
                removed += len(found) if table == "answers" else 0
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            if removed:
                self._db.execute("VACUUM")
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return removed

    def drop(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Removes the answers about these (newer, older) pairs, so that their calls are made, and paid, again.

        An answer about several older ids is removed with each of them.
        """
        with self._lock, self._transaction():
            for pair in pairs:
                self._db.execute("DELETE FROM answers WHERE newer_id = ? AND instr(older_id, ?)", pair)

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._db.close()

    def _end(self, key: str) -> None:
        self._db.execute("DELETE FROM calls WHERE key = ? AND pid = ? AND began = ?", [key, *self._process])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _is_alive(pid: int, began: str) -> bool:
    return process_started(pid) == began


def ledger_to_estimate(path: Path) -> closing[Ledger]:
    """Opens a ledger to count what is not paid yet; where there is none, an empty one in memory."""
    return closing(Ledger(path if path.exists() else None))


_FIRST_WAIT_S = 0.5
_MAX_FAILURES = 8  # in a row: then the server is down, and the remaining calls are not tried
_LONGEST_PAUSE_S = 120.0  # that a server may ask for; a call that has to wait longer is left to a later run


class LmUnavailable(Exception):
    """The server gave no answer, after all attempts. `reason` is that of all such."""

    reason = "no answer"


class RequestRefused(LmUnavailable):
    """The server does not take this request, such as one that is too long; it may take others."""

    reason = "refused by the server"


class BudgetSpent(LmUnavailable):
    """The budget does not cover the call."""

    reason = "budget"


class ServerDown(LmUnavailable):
    """Several calls in a row got no answer: this one was not tried."""

    reason = "server down"


class KeyRefused(PalimpsestError):
    """The server takes no call with this key."""

    def __init__(self, settings: LmSettings, status: int):
        """Makes the error; it does not have the key."""
        variable = "PALIMPSEST_LM_KEY" if settings.url else "PALIMPSEST_LM_KEY, or the provider's own variable,"
        super().__init__(
            f"PALIMPSEST_LM: {settings.where} refuses the key (HTTP {status}); set {variable} to a key that is valid"
            " there, and run again: what was built and answered is kept"
        )


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
        with self._lock:
            now = time.monotonic()
            start = max(self._next, now)
            self._next = start + self._interval_s
        if start > now:
            time.sleep(start - now)

    def pause(self, seconds: float) -> None:
        """Lets no request through before so many seconds have passed."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)


class LmClient:
    """A connection to one server or provider, shared by all threads, made by the first call."""

    def __init__(self, settings: LmSettings):
        self.settings = settings
        self._rate_limiter = RateLimiter(settings.requests_per_minute)

    @cached_property
    def _send(self) -> Callable[..., Any]:
        settings = served(self.settings)
        return _server(settings) if settings.url else _provider(settings)

    def complete(self, messages: Sequence[ChatMessage], response_format: JsonObject | None = None) -> LmAnswer:
        """Returns the model's answer, truncated ones too: every answer is paid.

        Args:
            messages: the request.
            response_format: the field of that name of a request; None sends none.

        Raises:
            LmUnavailable: the server was unreachable, too slow or too busy.
            RequestRefused: it refused.
            KeyRefused: it takes no call with this key.
            PalimpsestError: a local model cannot be loaded.
        """
        import openai
        import tenacity

        send = self._send
        wait = tenacity.wait_exponential_jitter(_FIRST_WAIT_S, self.settings.longest_wait_s, jitter=2 * _FIRST_WAIT_S)
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_transient),
            reraise=True,
            stop=tenacity.stop_after_attempt(self.settings.attempts),
            wait=wait,
        )
        try:
            return attempts(self._request, send, messages, response_format)
        except (openai.OpenAIError, _InvalidResponse) as e:
            status = getattr(e, "status_code", None)
            if status in _KEY_REFUSED:
                raise KeyRefused(self.settings, status) from None
            raise (RequestRefused if status in _REFUSED else LmUnavailable)(type(e).__name__) from None

    def _request(
        self, send: Callable[..., Any], messages: Sequence[ChatMessage], response_format: JsonObject | None
    ) -> LmAnswer:
        import openai

        self._rate_limiter.wait()
        try:
            response = send(
                model=self.settings.model,
                messages=[asdict(m) for m in messages],
                temperature=0.0,
                max_tokens=self.settings.max_tokens,
                seed=0,
                **({"response_format": response_format} if response_format else {}),
            )
            choice = response.choices[0]
            text = (choice.message.content or "") + (_CUT if getattr(choice, "finish_reason", "") == "length" else "")
            usage = response.usage
        except openai.OpenAIError as e:
            self._rate_limiter.pause(min(_retry_after_s(e), _LONGEST_PAUSE_S))
            raise
        except (ValueError, AttributeError, IndexError, TypeError) as e:  # a truncated response is not JSON
            raise _InvalidResponse(type(e).__name__) from None
        tokens_in, tokens_out = (usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage else (0, 0)
        return LmAnswer(text, tokens_in, tokens_out, self.settings.cost(tokens_in, tokens_out))


class PaidCalls:
    """Calls of a model, each paid once: its answers are in a ledger, its cost is within a budget.

    Attributes:
        settings: the model.
        budget: of the calls.
        calls, tokens_in, tokens_out: of the calls made now.
        known: answers that the ledger had.
    """

    def __init__(self, client: LmClient, ledger: Ledger, budget: Budget):
        self.settings, self.budget = client.settings, budget
        self._client, self._ledger, self._lock = client, ledger, threading.Lock()
        self._failures = self.calls = self.known = self.tokens_in = self.tokens_out = 0

    def complete(
        self,
        key: str,
        ids: tuple[str, str],
        program: str,
        messages: Sequence[ChatMessage],
        highest: float,
        response_format: JsonObject | None = None,
        keep: bool = True,
    ) -> tuple[LmAnswer, bool]:
        """Returns the answer of a key in the ledger, else that of a call, and whether it was paid now.

        Args:
            key: of the answer.
            ids: two ids that the ledger names the answer by, so that a delete finds it.
            program: stored with the answer.
            messages: the request.
            highest: the most that the call can cost.
            response_format: see LmClient.
            keep: False where the caller stores what it reads in the answer, by `put`.

        Raises:
            LmUnavailable: the server gave none, is down, or the budget does not cover the call.
            PalimpsestError: as of LmClient.
        """
        if known := self._ledger.claim(key, *ids):
            with self._lock:
                self.known += 1
            return known, False
        try:
            answer = self._pay(messages, highest, response_format)
        except BaseException:
            self._ledger.release(key)
            raise
        if keep:
            self.put(key, ids, program, answer)
        return answer, True

    def put(self, key: str, ids: tuple[str, str], program: str, answer: LmAnswer) -> None:
        """Stores an answer."""
        self._ledger.put(key, *ids, program, self.settings.model, answer)

    def _pay(self, messages: Sequence[ChatMessage], highest: float, response_format: JsonObject | None) -> LmAnswer:
        if self._failures >= _MAX_FAILURES:
            raise ServerDown
        if not self.budget.reserve(highest):
            raise BudgetSpent(f"its budget of {self.budget.limit:g} ({self.budget.name}) does not cover a call")
        spent = 0.0
        try:
            answer = self._client.complete(messages, response_format)
            spent = answer.cost
        except RequestRefused:
            raise
        except LmUnavailable:
            self._failures += 1
            raise
        finally:
            self.budget.settle(highest, spent)
        with self._lock:
            self._failures = 0
            self.calls += 1
            self.tokens_in += answer.tokens_in
            self.tokens_out += answer.tokens_out
        return answer


class _InvalidResponse(Exception):
    """The body is not what the protocol defines."""


def _server(settings: LmSettings) -> Callable[..., Any]:
    import openai

    connection = openai.OpenAI(
        base_url=settings.url, api_key=settings.key or "none", timeout=settings.timeout_s, max_retries=0
    )
    return connection.chat.completions.create


def _provider(settings: LmSettings) -> Callable[..., Any]:
    """Returns what speaks a provider's own protocol; its errors are those of the class openai.OpenAIError too."""
    return partial(
        litellm().completion,
        api_key=settings.key or None,
        timeout=settings.timeout_s,
        num_retries=0,
        max_retries=0,
        drop_params=True,  # what a provider does not have, such as a seed
    )


_KEY_REFUSED = (401, 403)
_REFUSED = (400, 413, 422)
_TRANSIENT = (408, 409, 429)


def _is_transient(error: BaseException) -> bool:
    import openai

    if isinstance(error, openai.OpenAIError) and _retry_after_s(error) > _LONGEST_PAUSE_S:
        return False
    status = getattr(error, "status_code", None)
    if isinstance(error, _InvalidResponse | openai.APIConnectionError | openai.APIResponseValidationError):
        return True
    return isinstance(status, int) and (status in _TRANSIENT or status >= 500)


def _retry_after_s(error: Exception) -> float:
    """Returns how long the server asks to wait, in seconds or until a date; 0 where it does not."""
    response = getattr(error, "response", None)
    headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None) or {}
    text = str(headers.get("retry-after") or "")
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return 0.0
