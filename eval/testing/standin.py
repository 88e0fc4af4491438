"""A scripted stand-in for a language model: an OpenAI-compatible HTTP server of known accuracy, with faults on demand.

It proves transport, ledger, budget and cascade over real HTTP. Its labels are looked up, so it says nothing of quality.
"""

import http.server
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from palimpsest.core.ids import content_id
from palimpsest.relations.classify.label_types import LABELS

_FIELD = r"\[\[ ## {0} ## \]\]\s*\n(.*?)(?=\n\s*\[\[ ## |\n+Respond with|\Z)"
FAULTS = ("429", "500", "timeout", "cut", "garbage")


@dataclass
class Seen:
    """What the server did, by its own count."""

    requests: int = 0
    answered: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    keys: set[str] = field(default_factory=set)


class StandIn:
    """The server, on a port of 127.0.0.1 of its own; a context manager.

    Attributes:
        truth: (older, newer) -> label; a pair that is not there is answered NONE.
        accuracy: the share of pairs, drawn by their text, that are answered as `truth` says.
        fault_share: the share of requests that meet a fault, drawn by pair and attempt.
        reply: what is said to a prompt that is no pair's, where one is given; it is then counted as (prompt, "").
        seen: its own count.
    """

    def __init__(
        self,
        truth: Mapping[tuple[str, str], str],
        accuracy: float = 1.0,
        fault_share: float = 0.0,
        faults: tuple[str, ...] = FAULTS,
        slow_s: float = 2.0,
        delay_s: float = 0.0,
        reply: Callable[[str], str] | None = None,
    ):
        self.truth, self.accuracy, self.fault_share, self.faults = dict(truth), accuracy, fault_share, faults
        self.slow_s, self.delay_s, self.reply = slow_s, delay_s, reply
        self.seen = Seen()
        self.lock = threading.Lock()
        self.closing = threading.Event()
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                stand_in.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = _Quiet(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> "StandIn":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def label(self, older: str, newer: str) -> str:
        """Returns what the server says of a pair."""
        right = self.truth.get((older, newer), "NONE")
        if _draw("accuracy", older, newer) < self.accuracy:
            return right
        wrong = [x for x in sorted(LABELS) if x != right]
        return wrong[int(_draw("wrong", older, newer) * len(wrong))]

    def answer(self, handler: Any) -> None:
        """Answers one request, or meets it with a fault."""
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        messages = json.loads(body)["messages"]
        prompt = messages[-1]["content"]
        older, newer = (prompt, "") if self.reply else (_field(prompt, "older"), _field(prompt, "newer"))
        with self.lock:
            self.seen.requests += 1
            self.seen.pairs[older, newer] += 1
            attempt = self.seen.pairs[older, newer]
            self.seen.keys.add(handler.headers.get("Authorization", ""))
        if self.delay_s:
            time.sleep(self.delay_s)
        fault = ""
        if _draw("fault", older, newer, str(attempt)) < self.fault_share:
            fault = self.faults[int(_draw("which", older, newer, str(attempt)) * len(self.faults))]
            with self.lock:
                self.seen.faults[fault] += 1
        if fault in ("429", "500"):
            _send(handler, int(fault), {"error": {"message": "try again", "type": "server_error"}})
            return
        if fault == "timeout":
            self.closing.wait(self.slow_s)
            handler.close_connection = True
            return
        if fault == "garbage":
            said = "I would rather talk about soup."
        else:
            said = self.reply(prompt) if self.reply else _said(self.label(older, newer), older, newer)
        tokens = sum(len(m["content"].split()) for m in messages), len(said.split())
        told = {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "stand-in",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": said}}],
            "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
        }
        if fault == "cut":
            _send(handler, 200, told, cut=True)
            return
        with self.lock:  # counted before it is sent: what the caller has, the server has counted
            self.seen.answered += 1
            self.seen.tokens_in += tokens[0]
            self.seen.tokens_out += tokens[1]
        _send(handler, 200, told)


class _Quiet(http.server.ThreadingHTTPServer):
    """A server that says nothing of callers who hang up."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        return


def _said(label: str, older: str, newer: str) -> str:
    fields = {"older_quote": older, "newer_quote": newer, "label": label, "confidence": "0.9"}
    return "".join(f"[[ ## {k} ## ]]\n{v}\n\n" for k, v in fields.items()) + "[[ ## completed ## ]]"


def _field(prompt: str, name: str) -> str:
    found = re.findall(_FIELD.format(name), prompt, re.DOTALL)
    return found[-1].strip() if found else ""


def _draw(*what: str) -> float:
    return int(content_id("stand-in", *what), 16) / 16**16


def _send(handler: Any, status: int, told: dict[str, Any], cut: bool = False) -> None:
    body = json.dumps(told).encode()
    try:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: len(body) // 2] if cut else body)
        handler.wfile.flush()
    except OSError:
        handler.close_connection = True
    if cut:
        handler.close_connection = True
