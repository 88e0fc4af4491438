"""Alerts to a real HTTP server on loopback."""

import datetime as dt
import json
import os
import socketserver
import threading
from email import message_from_bytes
from email.policy import default
from http.server import BaseHTTPRequestHandler, HTTPServer
from unittest.mock import patch

import dagster as dg
import pytest
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.events import DagsterEvent
from dagster._core.utils import make_new_run_id

from palimpsest.core.errors import PalimpsestError
from palimpsest.orchestration.alerts import TRIES, closed_message, send_alert, unreadable_message
from palimpsest.orchestration.resources import HomeResource
from palimpsest.orchestration.watch import UnreadableCollections, overdue_build, unreadable_collections
from palimpsest.pipeline.summary import freshness
from palimpsest.store.event_log import read_events, write_event
from palimpsest.store.home import Home
from tests.small_corpus import build_home, write_chats, write_notes


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


MESSAGE = {"text": "héllo", "event": "test"}


def test_a_message_is_tried_again_until_it_is_taken_and_a_chat_program_gets_the_text_alone(monkeypatch):
    with Hook(500, 429, 204) as hook:
        monkeypatch.setenv("PALIMPSEST_ALERT_URL", hook.url)
        assert send_alert(MESSAGE, wait_s=0.01)
        monkeypatch.setenv("PALIMPSEST_ALERT_FORMAT", "slack")
        assert send_alert(MESSAGE, wait_s=0.01)
    assert hook.got == [("application/json", MESSAGE)] * 3 + [("application/json", {"text": "héllo"})]


def test_an_unreachable_server_is_reported_without_its_address(monkeypatch):
    with Hook(503) as hook, pytest.raises(PalimpsestError, match=f"after {TRIES} tries: the server answered 503") as e:
        monkeypatch.setenv("PALIMPSEST_ALERT_URL", hook.url)
        send_alert(MESSAGE, wait_s=0.01)
    assert len(hook.got) == TRIES and "T0KEN" not in str(e.value)
    with pytest.raises(PalimpsestError, match="no answer") as e:
        send_alert(MESSAGE, wait_s=0.01)
    assert "T0KEN" not in str(e.value) and "127.0.0.1" not in str(e.value)


@pytest.mark.parametrize("code", [400, 404, 302])
def test_a_refusal_or_a_redirect_is_not_tried_again(monkeypatch, code):
    with Hook(code) as hook, pytest.raises(PalimpsestError, match=f"answered {code}"):
        monkeypatch.setenv("PALIMPSEST_ALERT_URL", hook.url)
        send_alert(MESSAGE, wait_s=0.01)
    assert len(hook.got) == 1


def test_nothing_is_sent_where_no_address_is_set_and_no_file_is_read(monkeypatch):
    monkeypatch.delenv("PALIMPSEST_ALERT_URL", raising=False)
    assert not send_alert(MESSAGE)
    monkeypatch.setenv("PALIMPSEST_ALERT_URL", "file:///etc/passwd")
    with pytest.raises(PalimpsestError, match="https"):
        send_alert(MESSAGE)


class MailServer(socketserver.StreamRequestHandler):
    """A mail server on loopback without TLS; `busy` times it answers that it cannot take a mail now."""

    busy, mails = 0, list[bytes]()

    def handle(self):
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                MailServer.mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))
            is_busy = word == b"MAIL" and MailServer.busy > 0
            MailServer.busy -= is_busy
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"451 later\r\n" if is_busy else b"250 well\r\n")


def test_mail_is_sent_again_while_the_server_is_busy_and_a_password_never_without_tls(monkeypatch):
    MailServer.busy, MailServer.mails = 2, []
    monkeypatch.delenv("PALIMPSEST_ALERT_URL", raising=False)
    monkeypatch.setenv("PALIMPSEST_ALERT_MAIL", "ops@example.org, night@example.org")
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), MailServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.server_address[1]}"
        monkeypatch.setenv("PALIMPSEST_ALERT_SMTP", f"smtp://{place}")
        assert send_alert(unreadable_message("notes", "collection.yaml: héllo\nsecond line"), wait_s=0.01)
        (mail,) = (message_from_bytes(m, policy=default) for m in MailServer.mails)
        assert mail["To"] == "ops@example.org, night@example.org"
        subject = " ".join(mail["Subject"].split())  # a long one is folded
        assert subject.startswith("Palimpsest: collection notes cannot be read: collection.yaml: héllo second line")
        monkeypatch.setenv("PALIMPSEST_ALERT_SMTP", f"smtp://me:S3CRET@{place}")
        with pytest.raises(PalimpsestError, match="no TLS") as e:
            send_alert(MESSAGE, wait_s=0.01)
        assert "S3CRET" not in str(e.value) and len(MailServer.mails) == 1
        server.shutdown()
    monkeypatch.setenv("PALIMPSEST_ALERT_SMTP", "http://x")
    with pytest.raises(PalimpsestError, match="smtps://user"):
        send_alert(MESSAGE)


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
        said, cursor = look(built, None, 30.5)
        assert "overdue" in said and [m["event"] for _, m in hook.got] == ["build_overdue"]
        assert hook.got[0][1]["text"].endswith("last confirmed 30 hours ago, at most 26")
        look(built, cursor, 40)
        assert len(hook.got) == 1
        look(built, cursor, 60)
        assert len(hook.got) == 2
    events = read_events(built.home().path, level="warning")
    assert [e.event for e in events] == ["build_overdue"] * 2


def test_an_alert_that_is_not_delivered_is_tried_again(built, monkeypatch):
    monkeypatch.setattr("palimpsest.orchestration.alerts.MAX_WAIT_S", 0.0)
    with Hook(400) as hook:
        monkeypatch.setenv("PALIMPSEST_ALERT_URL", hook.url)
        said, cursor = look(built, None, 30.5)
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


def test_a_collection_that_cannot_be_read_alerts_fails_its_run_and_a_tick_and_a_check(
    tmp_path, shared_vectors, monkeypatch
):
    from palimpsest.orchestration.code_location import defs

    home = Home(tmp_path / "home", shared_vectors)
    build_home(home, write_notes(write_chats(tmp_path / "corpus"), {"a.md": "The key hangs behind the clock."}))
    settings = home.sources["notes"] / "collection.yaml"
    before = settings.read_text()
    settings.write_text("name: notes\ndescription: [oops\n")
    monkeypatch.setenv("DAGSTER_HOME", os.environ.get("DAGSTER_HOME", str(tmp_path)))
    resource = HomeResource(path=str(home.path), embeddings_path=str(shared_vectors))
    key = dg.AssetCheckKey(dg.AssetKey("documents"), "readable")

    with Hook(200) as hook, dg.instance_for_test() as instance:
        monkeypatch.setenv("PALIMPSEST_ALERT_URL", hook.url)
        instance.add_dynamic_partitions("collections", ["chats", "notes"])

        def build(name):
            options = {"instance": instance, "resources": {"home": resource}, "raise_on_error": False}
            return defs.resolve_job_def("rebuild").execute_in_process(partition_key=name, **options)

        def tick():
            with dg.build_sensor_context(instance=instance, resources={"home": resource}) as context:
                return unreadable_collections(context)

        def has_passed():
            (record,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
            return record.evaluation.passed

        assert not build("notes").success
        ((_, alert),) = hook.got
        assert alert["event"] == "collection_unreadable" and alert["collection"] == "notes"
        first_line = alert["text"].splitlines()[0]
        assert "collection notes cannot be read: collection.yaml: not valid YAML: line 3" in first_line
        for _ in range(2):
            with pytest.raises(UnreadableCollections, match=r"^collection notes cannot be read: collection\.yaml"):
                tick()
        assert not has_passed()
        assert build("chats").success
        with pytest.raises(UnreadableCollections):
            tick()
        assert not has_passed()
        assert len(instance.event_log_storage.get_asset_check_execution_history(key, limit=9)) == 2
        settings.write_text(before)
        assert "every collection" in str(tick().skip_message) and has_passed()
        planned = AssetCheckEvaluationPlanned(asset_key=key.asset_key, check_name=key.name)  # of a run that began
        kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED.value
        instance.report_dagster_event(DagsterEvent(kind, "rebuild", event_specific_data=planned), make_new_run_id())
        assert "every collection" in str(tick().skip_message) and has_passed()
        settings.parent.rename(tmp_path / "elsewhere")
        with pytest.raises(UnreadableCollections, match="its folder is gone"):
            tick()
    assert len(hook.got) == 1
