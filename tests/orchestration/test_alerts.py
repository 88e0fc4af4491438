"""Alerts to a real HTTP server on loopback."""

import datetime as dt
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from unittest.mock import patch

import dagster as dg
import pytest

from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.resources import HomeResource
from palimpsest.orchestration.watch import TRIES, closed_message, overdue_build, send_alert
from palimpsest.pipeline.summary import freshness
from palimpsest.store.event_log import read_events, write_event
from palimpsest.store.home import Home
from tests.small_corpus import build_home, write_chats


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


NOW = dt.datetime.now(dt.UTC)


@pytest.fixture(scope="module")
def built(tmp_path_factory, shared_vectors):
    base = tmp_path_factory.mktemp("watched")
    home = Home(base / "home", shared_vectors)
    build_home(home, write_chats(base / "corpus"))
    return HomeResource(path=str(home.path), embeddings_path=str(shared_vectors))


def look(resource, cursor, hours=0.0):
    later = NOW + dt.timedelta(hours=hours)
    with (
        patch("palimpsest.orchestration.watch._now", return_value=later),
        dg.instance_for_test() as instance,
        dg.build_sensor_context(instance=instance, cursor=cursor, resources={"home": resource}) as context,
    ):
        return overdue_build(context).skip_message, context.cursor


def test_an_overdue_build_alerts_once_a_day_until_it_is_confirmed(built, monkeypatch):
    with Hook(200) as hook:
        monkeypatch.setenv("PALIMPSEST_ALERT_URL", hook.url)
        said, cursor = look(built, None, 1)
        assert "was confirmed" in said and not cursor and hook.got == []
        said, cursor = look(built, None, 30)
        assert "overdue" in said and [m["event"] for _, m in hook.got] == ["build_overdue"]
        assert hook.got[0][1]["text"].endswith("last confirmed 30 hours ago, at most 26")
        look(built, cursor, 40)
        assert len(hook.got) == 1
        look(built, cursor, 60)
        assert len(hook.got) == 2
    events = read_events(built.home().path, level="warning")
    assert [e.event for e in events] == ["build_overdue"] * 2


def test_an_alert_that_is_not_delivered_is_tried_again(built, monkeypatch):
    monkeypatch.setattr("palimpsest.orchestration.watch.MAX_WAIT_S", 0.0)
    with Hook(400) as hook:
        monkeypatch.setenv("PALIMPSEST_ALERT_URL", hook.url)
        said, cursor = look(built, None, 30)
    assert "refused" in said and not cursor


def test_hours_are_a_setting_and_only_an_unchanged_night_confirms(built, monkeypatch):
    monkeypatch.setenv("PALIMPSEST_OVERDUE_HOURS", "soon")
    with pytest.raises(PalimpsestError, match="PALIMPSEST_OVERDUE_HOURS"):
        assert freshness(built.home(), NOW).is_overdue
    monkeypatch.delenv("PALIMPSEST_OVERDUE_HOURS")
    home = built.home()
    before = freshness(home, NOW)
    write_event(home.path, "build_failed", level="error")
    write_event(home.path, "build_finished", published=0)
    assert freshness(home, NOW).confirmed_at == before.confirmed_at
    write_event(home.path, "build_confirmed", build_id="000001")
    assert freshness(home, NOW).confirmed_at > before.confirmed_at


def test_a_stage_that_fails_alerts_with_its_name_and_without_the_words_of_the_error(tmp_path, built, monkeypatch):
    from palimpsest.orchestration.code_location import defs

    monkeypatch.setenv("DAGSTER_HOME", os.environ.get("DAGSTER_HOME", str(tmp_path)))
    with (
        Hook(200) as hook,
        dg.instance_for_test() as instance,
        patch("palimpsest.orchestration.build_assets.run_stage", side_effect=OSError("a secret")),
    ):
        monkeypatch.setenv("PALIMPSEST_ALERT_URL", hook.url)
        instance.add_dynamic_partitions("collections", ["chats"])
        job = defs.resolve_job_def("rebuild")
        options = {"instance": instance, "resources": {"home": built}, "raise_on_error": False}
        assert not job.execute_in_process(partition_key="chats", **options).success
    assert [m["event"] for _, m in hook.got] == ["build_failed"]
    assert hook.got[0][1]["stage"] == "documents" and "secret" not in str(hook.got)
    assert read_events(built.home().path, level="error")[-1].event == "run_failed"
