"""What the service adds to a query, and how it answers many clients at once.

    python -m palimpsest_eval.studies.service_load [--memories 100000] [--clients 50] [--seconds 60] [--pause 1]

Serves a synthetic home, as `palimpsest bench` makes it, in a process of its own. First one client searches each
question twice, over HTTP and in this process by turns. Then each of the clients, a user's each, sends requests for so
many seconds, with a pause between them (exponential, 0 for none): of 100 requests 70 are searches, 15 show a memory
that a search found, 5 its history, 5 a page of the graph, 5 send a text.
"""

import argparse
import datetime as dt
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from http.client import HTTPConnection
from itertools import chain
from pathlib import Path
from urllib.parse import urlencode

import jwt
import numpy as np

from palimpsest.query.reader import open_home
from palimpsest.query.request.types import Scope
from palimpsest_eval.bench.measure_queries import QUESTIONS_FILE
from palimpsest_eval.bench.run_bench import write_synthetic_home
from palimpsest_eval.bench.synthetic import synthetic_build

SEED = 20_261_126
_ADDED_QUERIES = 200
_WARM_UP = 20
_MIX = {"search": 70, "memory": 15, "history": 5, "graph": 5, "add": 5}
_RUN_CLI = "import sys; from palimpsest.cli.main import main; sys.argv[0] = 'palimpsest'; main()"
_START_S = 60


@dataclass(frozen=True)
class LoadFigures:
    """Figures of a load.

    Attributes:
        requests: answered, by kind.
        errors: answers that are no success, by status.
        requests_per_s: of all clients.
        p50_ms, p95_ms: by kind of request.
    """

    requests: dict[str, int]
    errors: dict[str, int]
    requests_per_s: float
    p50_ms: dict[str, float]
    p95_ms: dict[str, float]


@dataclass(frozen=True)
class Added:
    """Milliseconds of one search, medians and 95th percentiles: over HTTP, in one process, and their difference."""

    http_p50_ms: float
    http_p95_ms: float
    direct_p50_ms: float
    direct_p95_ms: float
    added_p50_ms: float


@dataclass(frozen=True)
class Answer:
    """An answer of the service, and the milliseconds until all of it was read."""

    status: int
    took_ms: float
    content: bytes


@dataclass(frozen=True)
class Service:
    """A running service: its address, its secret, its home."""

    address: str
    secret: str
    home: Path

    def headers(self, user: str) -> dict[str, str]:
        """Returns the headers of a user's requests."""
        now = dt.datetime.now(dt.UTC)
        claims = {"sub": user, "iss": "palimpsest", "aud": "palimpsest", "exp": now + dt.timedelta(hours=1)}
        token = jwt.encode({**claims, "scope": "read write"}, self.secret, algorithm="HS256")
        return {"Authorization": f"Bearer {token}"}


@contextmanager
def serve(home: Path) -> Iterator[Service]:
    """Serves a home in a process of its own.

    Yields:
        The running service.

    Raises:
        SystemExit: it does not start.
    """
    secret = secrets.token_hex(32)
    variables = {"PALIMPSEST_JWT_SECRET": secret, "PALIMPSEST_SERVE_RPM": "1000000"}
    command = [sys.executable, "-c", _RUN_CLI, "serve", "--home", str(home), "--port", "0"]
    with subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout
            line = process.stdout.readline()
            if " at " not in line:
                raise SystemExit("the service does not start")
            yield Service(line.split(" at ")[1].strip(), secret, home)
        finally:
            process.terminate()


@dataclass
class Client:
    """A client of the service: one connection, which stays open, and the token of one user."""

    service: Service
    user: str

    def __post_init__(self) -> None:
        """Makes the connection; it is opened by the first request."""
        self._headers = self.service.headers(self.user)
        self._connection = HTTPConnection(self.service.address.removeprefix("http://"), timeout=30)

    def send(self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None) -> Answer:
        """Sends a request and reads the answer."""
        headers = self._headers | ({"Content-Type": "application/json"} if body is not None else {})
        target = f"{path}?{urlencode(query)}" if query else path
        content = json.dumps(body) if body is not None else None
        started = time.perf_counter()
        self._connection.request(method, target, content, headers)
        answer = self._connection.getresponse()
        read = answer.read()
        return Answer(answer.status, 1000 * (time.perf_counter() - started), read)


def added_ms(service: Service, user: str, questions: Sequence[str]) -> Added:
    """Searches each question over HTTP and in this process, by turns.

    Raises:
        SystemExit: a search is not answered.
    """
    over_http, direct = [], []
    with open_home(service.home) as reader:
        scope = next(s for s in reader.scopes() if s.user_id == user)
        client = Client(service, user)
        for i, question in enumerate(questions):
            started = time.perf_counter()
            reader.search(question, scope)
            took = 1000 * (time.perf_counter() - started)
            answer = client.send("GET", "/search", {"q": question})
            if answer.status != 200:
                raise SystemExit(f"/search answers {answer.status}")
            if i >= _WARM_UP:
                direct.append(took)
                over_http.append(answer.took_ms)
    difference = np.median(np.array(over_http) - np.array(direct))
    http_ms, direct_ms = ([_round(np.percentile(values, p)) for p in (50, 95)] for values in (over_http, direct))
    return Added(http_ms[0], http_ms[1], direct_ms[0], direct_ms[1], _round(difference))


def load(
    service: Service, users: Sequence[Scope], questions: Sequence[str], seconds: float, pause_s: float
) -> LoadFigures:
    """Sends the mixed requests of as many clients as there are users, each in a thread."""
    started = time.perf_counter()
    with ThreadPoolExecutor(len(users)) as pool:
        run = partial(_run_client, service, questions, started + seconds, pause_s)
        parts = list(pool.map(run, range(len(users)), (scope.user_id for scope in users)))
    elapsed = time.perf_counter() - started
    took: dict[str, list[float]] = {kind: [ms for of_kind, _, ms in chain(*parts) if of_kind == kind] for kind in _MIX}
    errors = Counter(str(status) for _, status, _ in chain(*parts) if not 200 <= status < 300)
    numbers = {kind: len(ms) for kind, ms in took.items()}
    p50, p95 = ({k: _round(np.percentile(ms, p)) for k, ms in took.items() if ms} for p in (50, 95))
    return LoadFigures(numbers, dict(errors), round(sum(numbers.values()) / elapsed, 1), p50, p95)


def _run_client(
    service: Service, questions: Sequence[str], end: float, pause_s: float, number: int, user: str
) -> list[tuple[str, int, float]]:
    """Returns (kind, status, milliseconds) of each request of a client."""
    client, draw, known, done = Client(service, user), random.Random(SEED + number), "", []  # noqa: S311 (a seeded draw)
    time.sleep(draw.uniform(0, min(pause_s, 1.0)))
    while time.perf_counter() < end:
        (kind,) = draw.choices([*_MIX], [*_MIX.values()])
        kind = kind if known or kind not in ("memory", "history") else "search"
        answer = _send(client, kind, draw.choice(questions), known)
        done.append((kind, answer.status, answer.took_ms))
        if kind == "search" and answer.status == 200 and (memories := json.loads(answer.content)["memories"]):
            known = str(memories[0]["memory_id"])
        if pause_s:
            time.sleep(draw.expovariate(1 / pause_s))
    return done


def _send(client: Client, kind: str, question: str, known: str) -> Answer:
    if kind == "add":
        return client.send("POST", "/memory", body={"text": question, "collection": "inbox"})
    if kind == "search":
        return client.send("GET", "/search", {"q": question})
    if kind == "graph":
        return client.send("GET", "/graph", {"limit": "100"})
    return client.send("GET", f"/memory/{known}" + ("/history" if kind == "history" else ""))


def _round(value: float) -> float:
    return round(float(value), 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the figures as JSON."""
    parser = argparse.ArgumentParser(prog="palimpsest_eval.studies.service_load", description=__doc__)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--pause", type=float, nargs="+", default=[1.0, 0.0], help="seconds between requests of a client"
    )
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="palimpsest-load-") as folder:
        home = Path(folder) / "home"
        build = synthetic_build(args.memories, args.clients, "turns", 1000)
        write_synthetic_home(home, build, "turns")
        largest, questions = json.loads((home / QUESTIONS_FILE).read_text(encoding="utf-8"))
        with open_home(home) as reader:
            users = reader.scopes()
        with serve(home) as service:
            added = added_ms(service, largest, questions[: _ADDED_QUERIES + _WARM_UP])
            sys.stdout.write(json.dumps({"largest_user": build.sizes[largest], "added": asdict(added)}) + "\n")
            for pause_s in args.pause:
                found = load(service, users, questions, args.seconds, pause_s)
                sys.stdout.write(json.dumps({"clients": len(users), "pause_s": pause_s, **asdict(found)}) + "\n")
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
