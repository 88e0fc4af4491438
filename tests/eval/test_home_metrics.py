"""Prometheus' text format of a home, read by Prometheus' own parser, and spans received by a real HTTP server."""

import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

from prometheus_client.parser import text_string_to_metric_families

from palimpsest.store.builds import published
from palimpsest_eval.runs.home_metrics import metrics_text, record_health
from tests.command import process, run


def samples(text):
    return {
        (s.name, *sorted(s.labels.values())): s.value for f in text_string_to_metric_families(text) for s in f.samples
    }


def test_the_figures_of_a_home_are_gauges(judged_home):
    found = samples(metrics_text(judged_home))
    assert found["palimpsest_build_number",] == 1 and found["palimpsest_gate_open",] == 1
    assert (found["palimpsest_memories", "latest"], found["palimpsest_memories", "retired"]) == (4, 1)
    assert 0 <= found["palimpsest_confirmed_age_seconds",] <= found["palimpsest_build_age_seconds",]
    seconds = {labels[0] for name, *labels in found if name == "palimpsest_stage_seconds"}
    assert {"documents", "relations", "index"} < seconds
    assert found["palimpsest_health", "cost"] == 0


def test_numbers_of_the_health_report_are_there_once_it_was_made(copied_home):
    assert ("palimpsest_health", "disputes_open") not in samples(metrics_text(copied_home))
    record_health(copied_home)
    assert ("palimpsest_health", "disputes_open") in samples(metrics_text(copied_home))


def test_latencies_have_their_collection_and_quantile(copied_home):
    build = published(copied_home)
    build.write_manifest(replace(build.manifest, gate={"status": "failed", "metrics": {"chats/p95_ms": 25.0}}))
    found = samples(metrics_text(copied_home))
    assert found["palimpsest_query_seconds", "0.95", "chats"] == 0.025 and found["palimpsest_gate_open",] == 0


def test_a_file_is_written_for_node_exporter(judged_home, tmp_path):
    path = tmp_path / "palimpsest.prom"
    assert run("metrics", "--home", judged_home.path, "--out", path).returncode == 0
    assert ("palimpsest_overdue",) in samples(path.read_text()) and path.stat().st_mode & 0o777 == 0o644
    assert [p.name for p in tmp_path.iterdir()] == ["palimpsest.prom"]
    none = run("metrics", "--home", tmp_path / "none")
    assert none.returncode == 2 and "no published build" in none.stderr


def test_a_collector_gets_a_span_with_the_fields_of_the_event(judged_home):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    got = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            got.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        done = process("gate", "--home", judged_home.path, OTEL_EXPORTER_OTLP_ENDPOINT=url)
        assert done.returncode in (0, 1), done.stderr
    finally:
        server.shutdown()
        server.server_close()
    ((path, request),) = got
    (resource,) = request.resource_spans
    spans = [s for scope in resource.scope_spans for s in scope.spans]
    assert path == "/v1/traces" and [s.name for s in spans] == ["gate"]
    attributes = {a.key: a.value for a in spans[0].attributes}
    assert attributes["palimpsest.collections"].int_value == 1
    service = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert service["service.name"] == "palimpsest"
