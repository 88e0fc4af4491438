"""A fake language model of known accuracy, with faults on demand: it speaks as OpenAI, Ollama and Anthropic do.

It proves transport, ledger, budget and cascade over real HTTP. Its labels are looked up, so it proves nothing of
quality.
"""

import http.server
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

from palimpsest.core.ids import JsonObject, JsonValue, content_id
from palimpsest.relations.labelers.label_types import LABELS
from palimpsest.text.terms import query_terms, terms

Fault = Literal["401", "429", "500", "timeout", "cut", "garbage", "context", "html", "refusal", "length"]
"""An HTTP status, no answer, half a body, an answer that is no label, a prompt that is too long for the model, the page
of a proxy in the place of an answer, OpenAI's field for a refusal, or no text: all tokens went into reasoning."""

FAULTS: tuple[Fault, ...] = ("429", "500", "timeout", "cut", "garbage")
MODEL = "stand-in"
_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]\s*\n(.*?)(?=\n\s*\[\[ ## |\n+Respond with|\Z)", re.DOTALL)
_ERRORS = {
    "401": (401, "invalid_api_key"),
    "429": (429, "rate_limit_exceeded"),
    "500": (500, "server_error"),
    "context": (400, "context_length_exceeded"),
}
_GARBAGE = "I would rather talk about soup."
_REFUSAL = "I cannot help with that."


@dataclass
class RequestCounts:
    """What the server counted.

    Attributes:
        requests: all requests, those that met a fault included.
        answered: requests with a complete answer, garbage included.
        tokens_in: words of the prompts that were answered.
        tokens_out: words of the answers.
        faults: requests by fault.
        pairs: requests by (older, newer) text.
        keys: values of the Authorization header.
        formats: requests by the type of their `response_format`, empty where they have none.
    """

    requests: int = 0
    answered: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    keys: set[str] = field(default_factory=set)
    formats: Counter[str] = field(default_factory=Counter)


class FakeLMServer:
    """A context manager that serves on a free port of 127.0.0.1.

    Attributes:
        truth: (older, newer) -> label; a pair that is not in it is answered NONE.
        accuracy: the share of pairs, drawn by their text, whose answer is the one in `truth`.
        fault_share: the share of requests that meet a fault, drawn by pair and attempt.
        faults: the faults to draw from.
        faulty_attempts: only so many requests of a prompt meet a fault; None for no limit.
        retry_after_s: seconds in the header `Retry-After` of a 429.
        slow_s: seconds before a `timeout` hangs up.
        delay_s: seconds before every answer.
        reply: returns the answer to a prompt that is no pair's; its prompts are counted as (prompt, "").
        chat: the same for all messages of a request, as texts; it wins over `reply`.
        counts: what the server counted.
        url: base URL, `http://127.0.0.1:<port>/v1`.
    """

    def __init__(
        self,
        truth: Mapping[tuple[str, str], str],
        accuracy: float = 1.0,
        fault_share: float = 0.0,
        faults: tuple[Fault, ...] = FAULTS,
        slow_s: float = 2.0,
        delay_s: float = 0.0,
        reply: Callable[[str], str] | None = None,
        chat: Callable[[Sequence[str]], str] | None = None,
        faulty_attempts: int | None = None,
        retry_after_s: float | None = None,
    ):
        self.truth, self.accuracy, self.fault_share, self.faults = dict(truth), accuracy, fault_share, faults
        self.slow_s, self.delay_s, self.reply, self.chat = slow_s, delay_s, reply, chat
        self.faulty_attempts, self.retry_after_s = faulty_attempts, retry_after_s
        self.counts = RequestCounts()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        answer = self._answer

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else an answer waits 40 ms for the acknowledgement of its headers

            def do_POST(self) -> None:
                answer(self)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = _QuietServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> "FakeLMServer":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def label(self, older: str, newer: str) -> str:
        """Returns the server's label of a pair."""
        right = self.truth.get((older, newer), "NONE")
        if _draw("accuracy", older, newer) < self.accuracy:
            return right
        wrong = [x for x in sorted(LABELS) if x != right]
        return wrong[int(_draw("wrong", older, newer) * len(wrong))]

    def _answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Answers one request, or meets it with a fault."""
        body = json.loads(handler.rfile.read(int(handler.headers.get("Content-Length") or 0)))
        handler.path = handler.path.partition("?")[0]
        if handler.path.endswith("/api/show"):  # what Ollama knows of a model
            _send(handler, 200, {})
            return
        texts = [_text(t) for t in (body.get("system"), *(m["content"] for m in body["messages"])) if t]
        form = _requested_format(body)
        prompt = texts[-1]
        pair = (
            (prompt, "") if self.reply or self.chat else (prompt_field(prompt, "older"), prompt_field(prompt, "newer"))
        )
        key = handler.headers.get("Authorization") or handler.headers.get("x-api-key") or ""
        fault = self._count_request(pair, form, key)
        if fault in _ERRORS:
            status, code = _ERRORS[fault]
            after = f"{self.retry_after_s:g}" if fault == "429" and self.retry_after_s is not None else ""
            _send(handler, status, {"error": {"message": code, "type": code, "code": code}}, retry_after=after)
            return
        if fault == "html":
            _send(handler, 200, "<html>Log in</html>", content_type="text/html")
            return
        if fault == "timeout":
            self._closing.wait(self.slow_s)
            handler.close_connection = True
            return
        if fault == "garbage":
            answer = _GARBAGE
        elif self.chat:
            answer = self.chat(texts)
        else:
            answer = self.reply(prompt) if self.reply else label_answer(self.label(*pair), *pair, as_json=bool(form))
        tokens_in, tokens_out = sum(len(t.split()) for t in texts), len(answer.split())
        if fault != "cut":
            with self._lock:  # counted before it is sent: what the caller has, the server has counted
                self.counts.answered += 1
                self.counts.tokens_in += tokens_in
                self.counts.tokens_out += tokens_out
        if fault == "length":
            answer, tokens_out = "", int(body["max_tokens"])
        completion = _completion(handler.path, answer, tokens_in, tokens_out, is_refusal=fault == "refusal")
        if fault == "length":
            completion["choices"][0]["finish_reason"] = "length"  # type: ignore[index]
        _send(handler, 200, completion, cut=fault == "cut")

    def _count_request(self, pair: tuple[str, str], form: str, key: str) -> Fault | None:
        """Counts a request, waits, and draws its fault."""
        with self._lock:
            self.counts.requests += 1
            self.counts.formats[form] += 1
            self.counts.pairs[pair] += 1
            attempt = str(self.counts.pairs[pair])
            self.counts.keys.add(key)
        if self.delay_s:
            time.sleep(self.delay_s)
        is_limited = self.faulty_attempts is not None and int(attempt) > self.faulty_attempts
        if is_limited or _draw("fault", *pair, attempt) >= self.fault_share:
            return None
        fault = self.faults[int(_draw("which", *pair, attempt) * len(self.faults))]
        with self._lock:
            self.counts.faults[fault] += 1
        return fault


class _QuietServer(http.server.ThreadingHTTPServer):
    """A server that does not log callers who hang up."""

    def handle_error(self, request: object, client_address: object) -> None:
        return


def label_answer(label: str, older: str, newer: str, *, as_json: bool) -> str:
    """Returns an answer in the fields of the relation program."""
    fields = {"older_quote": older, "newer_quote": newer, "label": label, "confidence": 0.9}
    return program_answer(fields | ({"conflict": "none"} if as_json else {}), as_json=as_json)


def program_answer(fields: Mapping[str, object], *, as_json: bool) -> str:
    """Returns an answer as JSON, or in the marked text of DSPy's ChatAdapter."""
    if as_json:
        return json.dumps(fields)
    written = ((name, value if isinstance(value, str) else json.dumps(value)) for name, value in fields.items())
    return "".join(f"[[ ## {name} ## ]]\n{text}\n\n" for name, text in written) + "[[ ## completed ## ]]"


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _requested_format(body: Mapping[str, Any]) -> str:
    """Returns the type of a request's `response_format`; as Ollama and Anthropic name it, always `json_schema`."""
    if body.get("format") or body.get("output_format"):
        return "json_schema"
    return str((body.get("response_format") or {}).get("type", ""))


def _completion(path: str, answer: str, tokens_in: int, tokens_out: int, *, is_refusal: bool = False) -> JsonObject:
    """Returns the body of a completion: of Ollama or Anthropic where the path is theirs, else of OpenAI."""
    if path.endswith("/api/chat"):
        spoken: JsonObject = {"role": "assistant", "content": answer}
        return {
            "model": MODEL,
            "message": spoken,
            "done": True,
            "prompt_eval_count": tokens_in,
            "eval_count": tokens_out,
        }
    if path.endswith("/v1/messages"):
        usage = {"input_tokens": tokens_in, "output_tokens": tokens_out}
        said: JsonObject = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": answer}]}
        return {"id": "x", "model": MODEL, "stop_reason": "end_turn", "usage": usage, **said}
    message: JsonObject = {"content": None, "refusal": _REFUSAL} if is_refusal else {"content": answer}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}],
        "usage": {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        },
    }


def prompt_fields(prompt: str) -> dict[str, str]:
    """Returns the fields of a prompt of dspy's ChatAdapter, the last value of each."""
    return {name: value.strip() for name, value in _FIELD.findall(prompt)}


def prompt_field(prompt: str, name: str) -> str:
    """Returns one of them, empty where the prompt has none."""
    return prompt_fields(prompt).get(name, "")


def _draw(*parts: str) -> float:
    """Returns a number in [0, 1), always the same for the same parts."""
    return int(content_id("stand-in", *parts), 16) / 16**16


def _send(
    handler: http.server.BaseHTTPRequestHandler,
    status: int,
    value: JsonValue,
    *,
    cut: bool = False,
    retry_after: str = "",
    content_type: str = "application/json",
) -> None:
    """Sends a body, JSON unless it is of another type; with `cut` the first half of it, and then hangs up."""
    body = json.dumps(value).encode() if content_type == "application/json" else str(value).encode()
    try:
        handler.send_response(status)
        handler.send_header("Content-Type", content_type)
        if retry_after:
            handler.send_header("Retry-After", retry_after)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: len(body) // 2] if cut else body)
        handler.wfile.flush()
    except OSError:
        handler.close_connection = True
    if cut:
        handler.close_connection = True


# A stand-in for a chat model: it repeats the memory whose words the request shares most, with its citation.

STAND_IN_NOTE = "A scripted server answers: it repeats one memory and shows the steps, not how a model answers."
NO_ANSWER = "Neither the conversation nor memory has the answer."
_LINE = re.compile(r"^- \([^)]*\) (.*) (\[(?:\d+|(?:memory|pending):[0-9a-f]{16})\])$", re.MULTILINE)


def chat_reply(messages: Sequence[str]) -> str:
    """Returns the line of the memory message that shares the most words with the last message, and its citation."""
    question_terms = set(query_terms(messages[-1]))
    lines = [line for message in messages[:-1] for line in _LINE.findall(message)]
    shared = [len(question_terms.intersection(terms(text))) for text, _ in lines]
    if not any(shared):
        return NO_ANSWER
    text, citation = lines[shared.index(max(shared))]
    return f"{text} {citation}"
