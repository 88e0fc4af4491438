"""Strangers: connections without requests, bodies without a token, headers without an end; callers go on meanwhile."""

import socket
import time
from contextlib import ExitStack

import httpx
import pytest

from palimpsest.serve.guard import BODY_S, MAX_HEADER_BYTES, make_token
from palimpsest.serve.run_server import HEADER_S, MAX_WAITING
from tests.serve.conftest import TOKENS, start_server

MIB = 2**20
BEARER = {"Authorization": f"Bearer {make_token(TOKENS, 'ann')}"}


@pytest.fixture(scope="module")
def address(served):
    with start_server(served / "home") as (_, url):
        host, _, port = url.removeprefix("http://").partition(":")
        yield host, int(port)


def sent(address: tuple[str, int], data: bytes) -> socket.socket:
    opened = socket.create_connection(address, timeout=20)
    opened.sendall(data)
    return opened


def answer(connection: socket.socket) -> bytes:
    """Returns the first bytes of the answer; nothing where the connection was closed without one."""
    try:
        return connection.recv(4096)
    except ConnectionResetError:
        return b""


def head(path: str, length: int, headers: dict[str, str] | None = None) -> bytes:
    given = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(length), **(headers or {})}
    return f"POST {path} HTTP/1.1\r\n{''.join(f'{k}: {v}' + chr(13) + chr(10) for k, v in given.items())}\r\n".encode()


def test_connections_without_a_request_are_closed_and_keep_nobody_out(address):
    with ExitStack() as stack:
        held = [stack.enter_context(sent(address, b"GET /health HTTP/1.1\r\nHost: x")) for _ in range(MAX_WAITING + 44)]
        with httpx.Client(base_url=f"http://{address[0]}:{address[1]}", headers=BEARER) as client:
            assert client.get("/health").status_code == 200
            assert client.get("/search", params={"q": "My bike"}).status_code == 200
        time.sleep(HEADER_S + 1)
        assert all(answer(connection) == b"" for connection in held)


def test_a_body_without_a_token_is_not_read_and_a_small_one_gets_its_answer(address):
    with ExitStack() as stack:
        large = [stack.enter_context(sent(address, head("/memory", 32 * MIB) + b"{" * MIB)) for _ in range(20)]
        assert all(answer(c)[:12] in (b"HTTP/1.1 401", b"HTTP/1.1 429", b"") for c in large)
        small = stack.enter_context(sent(address, head("/memories/search", 10) + b'{"q": "x"}'))
        assert answer(small)[:12] in (b"HTTP/1.1 401", b"HTTP/1.1 429")


def test_half_a_body_of_a_caller_is_given_up_and_others_go_on(address):
    with ExitStack() as stack:
        held = [stack.enter_context(sent(address, head("/memory", 8 * MIB, BEARER) + b"{" * 1000)) for _ in range(8)]
        with httpx.Client(base_url=f"http://{address[0]}:{address[1]}", headers=BEARER) as client:
            assert client.post("/memories/search", json={"q": "My bike"}).status_code == 200
        time.sleep(BODY_S + 1)
        assert answer(held[0])[:12] == b"HTTP/1.1 408"


def test_an_endpoint_takes_a_body_of_its_own_size(address):
    with sent(address, head("/memories/search", 2 * MIB, BEARER)) as connection:
        assert answer(connection)[:12] == b"HTTP/1.1 413"


@pytest.mark.parametrize(
    "line", [b"X-Long: " + b"x" * 2 * MAX_HEADER_BYTES, b"\r\n".join(b"X-%d: x" % n for n in range(20_000))]
)
def test_headers_without_an_end_are_refused(address, line):
    with socket.create_connection(address, timeout=20) as connection:
        try:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n" + line + b"\r\n\r\n")
            assert answer(connection)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 431", b"")
        except (BrokenPipeError, ConnectionResetError):
            pass
