"""Searches of many clients of the service at once, over REST and over MCP, with and without a pause between them."""

import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Protocol

import httpx2
import jwt
import numpy as np

from palimpsest.core.errors import ComponentFailed
from palimpsest.core.ids import JsonRecord
from palimpsest.query import open_home
from palimpsest_eval.bench.measure_queries import QUESTIONS_FILE
from palimpsest_eval.bench.run_bench import write_synthetic_home
from palimpsest_eval.bench.synthetic import synthetic_build
from palimpsest_eval.metrics import Machine, this_machine

PAUSES_S = (1.0, 0.0)
"""Seconds from the start of a client's search to that of its next: one a second, and at once."""
ROUND_S, _WARM_S, _QUESTIONS = 20.0, 15.0, 4000
_RUN_CLI = "import sys; from palimpsest.cli.main import main; sys.argv[0] = 'palimpsest'; main()"


@dataclass(frozen=True)
class ServiceLoad(JsonRecord):
    """The searches of one round.

    Attributes:
        protocol: rest or mcp.
        pause_s: from the start of a client's search to that of its next; 0: without a pause.
        searches: answered.
        errors: answers that are no success.
        per_s: searches a second, of all clients.
        p50_ms, p95_ms: from sending to the whole answer.
    """

    protocol: str
    pause_s: float
    searches: int
    errors: int
    per_s: float
    p50_ms: float
    p95_ms: float

    def text(self) -> str:
        """Returns a line for people."""
        pace = "one search a second" if self.pause_s else "without a pause"
        return (
            f"{self.protocol}, {pace}: p50 {self.p50_ms:.0f} ms, p95 {self.p95_ms:.0f} ms, "
            f"{self.per_s:.0f} searches a second, {self.errors} errors of {self.searches}"
        )


@dataclass(frozen=True)
class ServiceReport(JsonRecord):
    """Every round, and where they were measured."""

    memories: int
    clients: int
    machine: Machine
    rounds: Sequence[ServiceLoad]

    def text(self) -> str:
        """Returns the report for people."""
        head = f"{self.memories} memories, {self.clients} clients, a user each"
        return "\n".join([head, *(r.text() for r in self.rounds)])


class _Searcher(Protocol):
    async def __call__(self, question: str) -> bool:
        """Searches, and returns whether it was answered."""


def measure_service(memories: int, clients: int, workdir: Path | None = None) -> ServiceReport:
    """Serves a synthetic home in a process of its own and searches it.

    Args:
        memories: in all; each client is one of as many users of Zipf size.
        clients: at once; each keeps one connection.
        workdir: folder for the home, which is removed; None means the system's.

    Raises:
        ComponentFailed: the service does not start.
    """
    with tempfile.TemporaryDirectory(prefix="palimpsest-bench-", dir=workdir) as folder:
        home = Path(folder) / "home"
        write_synthetic_home(home, synthetic_build(memories, clients, "turns", _QUESTIONS), "turns")
        questions = json.loads((home / QUESTIONS_FILE).read_text(encoding="utf-8"))[1]
        with open_home(home, count_reads=False) as reader:
            users = sorted(scope.user_id for scope in reader.scopes())
        with _serve(home) as (address, secret):
            tokens = [_token(secret, user) for user in users]
            rounds = asyncio.run(_measure(address, tokens, questions))
    return ServiceReport(memories, len(users), this_machine(), rounds)


@contextmanager
def _serve(home: Path) -> Iterator[tuple[str, str]]:
    """Serves a home.

    Yields:
        The address, and the secret of its tokens.

    Raises:
        ComponentFailed: the service does not start.
    """
    secret = secrets.token_hex(32)
    variables = {"PALIMPSEST_JWT_SECRET": secret, "PALIMPSEST_SERVE_RPM": "1000000"}
    command = [sys.executable, "-c", _RUN_CLI, "serve", "--home", str(home), "--port", "0", "--build-every", "0"]
    with subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout
            line = process.stdout.readline()
            if " at " not in line:
                raise ComponentFailed("bench: the service does not start")
            yield line.split(" at ")[1].strip(), secret
        finally:
            process.terminate()


def _token(secret: str, user: str) -> str:
    claims = {"sub": user, "iss": "palimpsest", "aud": "palimpsest", "exp": time.time() + 3600, "scope": "read"}
    return jwt.encode(claims, secret, algorithm="HS256")


async def _measure(address: str, tokens: Sequence[str], questions: Sequence[str]) -> list[ServiceLoad]:
    rounds, ahead = [], cycle(questions)
    for protocol, open_client in _CLIENTS.items():
        async with AsyncExitStack() as stack:
            searchers = [await open_client(stack, address, token) for token in tokens]
            await _round(searchers, ahead, 0.0, _WARM_S)
            for pause_s in PAUSES_S:
                took_ms, errors = await _round(searchers, ahead, pause_s, ROUND_S)
                p50, p95 = np.percentile(took_ms, (50, 95)).tolist()
                rounds.append(ServiceLoad(protocol, pause_s, len(took_ms), errors, len(took_ms) / ROUND_S, p50, p95))
    return rounds


async def _round(
    searchers: Sequence[_Searcher], questions: Iterator[str], pause_s: float, seconds: float
) -> tuple[list[float], int]:
    """Returns the milliseconds of each search of all clients, and how many failed; no question comes twice."""
    took_ms: list[float] = []
    errors, started = 0, time.perf_counter()

    async def run(number: int, search: _Searcher) -> None:
        nonlocal errors
        at = started + pause_s * number / len(searchers)  # clients start one after the other
        while at < started + seconds:
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            began = time.perf_counter()
            errors += not await search(next(questions))
            took_ms.append(1000 * (time.perf_counter() - began))
            at = max(at + pause_s, time.perf_counter()) if pause_s else time.perf_counter()

    await asyncio.gather(*(run(n, search) for n, search in enumerate(searchers)))
    return took_ms, errors


async def _rest_client(stack: AsyncExitStack, address: str, token: str) -> _Searcher:
    headers = {"Authorization": f"Bearer {token}"}
    client = await stack.enter_async_context(httpx2.AsyncClient(base_url=address, headers=headers, timeout=60))

    async def search(question: str) -> bool:
        answer = await client.get("/search", params={"q": question})
        return answer.status_code == 200 and bool(answer.json()["memories"])

    return search


async def _mcp_client(stack: AsyncExitStack, address: str, token: str) -> _Searcher:
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {token}"}
    connection = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
    client = await stack.enter_async_context(Client(streamable_http_client(f"{address}/mcp", http_client=connection)))

    async def search(question: str) -> bool:
        return not (await client.call_tool("search_memory", {"query": question})).is_error

    return search


_CLIENTS: Mapping[str, Callable[[AsyncExitStack, str, str], Awaitable[_Searcher]]] = {
    "rest": _rest_client,
    "mcp": _mcp_client,
}
