"""Alerts to a real HTTP server on loopback."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.watch import TRIES, closed_message, send_alert


class Hook:
    """A webhook that answers with the given codes, the last one repeatedly."""

    def __init__(self, *codes: int):
        self.codes, self.got = list(codes), []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.got.append((self.headers["Content-Type"], json.loads(body)))
                code = hook.codes.pop(0) if len(hook.codes) > 1 else hook.codes[0]
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/T0KEN"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def test_a_message_is_tried_again_until_it_is_taken():
    with Hook(500, 429, 204) as hook:
        assert send_alert({"text": "héllo"}, hook.url, wait_s=0.01)
    assert hook.got == [("application/json", {"text": "héllo"})] * 3


def test_an_unreachable_server_is_reported_without_its_address():
    with Hook(503) as hook, pytest.raises(PalimpsestError, match=f"after {TRIES} tries: the server answered 503") as e:
        send_alert({}, hook.url, wait_s=0.01)
    assert len(hook.got) == TRIES and "T0KEN" not in str(e.value)
    with pytest.raises(PalimpsestError, match="no answer") as e:
        send_alert({}, hook.url, wait_s=0.01)
    assert "T0KEN" not in str(e.value) and "127.0.0.1" not in str(e.value)


@pytest.mark.parametrize("code", [400, 404, 302])
def test_a_refusal_or_a_redirect_is_not_tried_again(code):
    with Hook(code) as hook, pytest.raises(PalimpsestError, match=f"answered {code}"):
        send_alert({}, hook.url, wait_s=0.01)
    assert len(hook.got) == 1


def test_nothing_is_sent_where_no_address_is_set_and_no_file_is_read(monkeypatch):
    monkeypatch.delenv("PALIMPSEST_ALERT_URL", raising=False)
    assert not send_alert({})
    with pytest.raises(PalimpsestError, match="https"):
        send_alert({}, "file:///etc/passwd")


def test_the_message_names_build_and_reasons():
    message = closed_message("000007", {"status": "failed", "reasons": [f"r{i}" for i in range(7)]})
    assert message["text"].splitlines()[0].endswith("build 000007 is not published")
    assert message["text"].splitlines()[-1] == "- and 2 more" and len(message["reasons"]) == 7
