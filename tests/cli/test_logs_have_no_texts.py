"""No log and no trace has what somebody wrote: a canary in each text of each command, of documents, answers and keys.

What a command says to whoever typed it may quote that. Dagster's pages have the messages of failed steps and the names
of rejected sources (docs/operations.md): they are searched for texts, answers and keys.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import polars as pl
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from palimpsest.cli.main import cli
from palimpsest.store import event_log
from palimpsest.store.builds import published
from palimpsest.store.home import Home
from tests.command import process, run
from tests.small_corpus import write_chats, write_notes
from tests.word_embedder import WordEmbedder

CANARY = "zqcanary"
TEXT, ANSWER, KEY = "zqtext", "zqanswer", "zqkey"
LOGS = ("logs", ".service", "usage", "health/history.jsonl")
NEVER_END = {("dev",), ("service", "run"), ("service", "start"), ("serve", "mcp")}
OTHER_PLACES = {
    ("neo4j", "start"),
    ("neo4j", "stop"),
    ("neo4j", "status"),
    ("config", "edit"),
    ("bench",),
    ("benchmark",),
}
"""Commands of servers and of an editor, and those that make a home of their own."""
DELETING = ("delete", "undo")


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PALIMPSEST_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("palimpsest.memories.embed.load_embedder", WordEmbedder)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What is sent to a collector from now on."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setenv(event_log.ENDPOINT, "http://127.0.0.1:9")
    monkeypatch.setattr(event_log, "_tracer", lambda: provider.get_tracer("palimpsest"))
    return exporter


def write_corpus(folder: Path) -> Path:
    turn = ("s4", CANARY, f"{CANARY} Bird", f"The locker of {CANARY} has the code {TEXT}-77.", "2026-02-03T10:02:00Z")
    notes = {
        f"{CANARY}.md": f"---\ntags: [{CANARY}]\nowner: {CANARY}\n---\n# {CANARY} boat\n\nThe boat {TEXT} is green.\n",
        f"{CANARY}.pdf": f"%PDF-1.4 {TEXT}",
        "broken.json": f'{{"a": "{TEXT}',
        "other.md": "The harbour has two cranes.\n",
    }
    return write_notes(write_chats(folder / "corpus", [turn]), notes, user_id=CANARY)


def written_in(home: Path, words: str, places: tuple[str, ...] = LOGS) -> list[str]:
    """Returns the files of a home in the given places that contain some words."""
    paths = [p for place in places for p in (home / place, *(home / place).rglob("*"))]
    return [str(p.relative_to(home)) for p in paths if p.is_file() and words.encode() in p.read_bytes()]


def commands(group: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yields every command that ends by itself; those that delete are last."""
    if not isinstance(group, click.Group):
        if path not in NEVER_END | OTHER_PLACES:
            yield path, group
        return
    context = click.Context(group)
    for name in sorted(group.list_commands(context), key=lambda n: (n in DELETING, n)):
        if (command := group.get_command(context, name)) is not None:
            yield from commands(command, (*path, name))


def given(option: click.Parameter, value: str) -> list[str]:
    return [value] if isinstance(option, click.Argument) else [max(option.opts, key=len), value]


def texts_of(command: click.Command) -> list[click.Parameter]:
    """Returns the options and arguments of a command that take words: all but numbers, choices and the home."""
    others = (click.Choice, click.IntRange, click.FloatRange, click.types.BoolParamType, click.types.FloatParamType)
    return [p for p in command.params if not isinstance(p.type, others) and p.name != "home_path"]


def arguments_of(command: click.Command, each: bool, known: dict[str, str]) -> Iterator[list[str]]:
    """Yields arguments of a command: a canary in all of its texts; what the home has; a canary in each."""
    texts = texts_of(command)
    required = [p for p in command.params if p.required]
    fixed = [a for p in required if isinstance(p.type, click.Choice) for a in given(p, p.type.choices[0])]
    words = [p for p in texts if isinstance(p.type, click.types.StringParamType | click.Path)]
    yield fixed + [a for p in words for a in given(p, CANARY)]
    needed = [a for p in required if p in texts for a in given(p, known.get(str(p.name), CANARY))]
    optional = [p for p in texts if not p.required]
    in_scope = [a for p in optional if p.name in ("collection", "user") for a in given(p, known[str(p.name)])]
    yield fixed + needed + in_scope + ["--yes" for p in command.params if p.name == "yes" and each]
    for option in optional if each else ():
        yield fixed + needed + given(option, CANARY)


@pytest.mark.parametrize("each", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_no_text_that_a_command_is_given_reaches_a_log_or_a_trace(tmp_path, spans, each):
    home, corpus = tmp_path / "home", write_corpus(tmp_path)
    run("build", "--corpus", corpus, cwd=tmp_path)
    build = published(Home(home))
    assert build is not None
    memory_id = build.table("notes", "memories").filter(pl.col("text").str.contains(TEXT))["memory_id"][0]
    known = {"collection": "notes", "user": CANARY, "uri": f"{CANARY}.md", "memory_id": memory_id}
    (tmp_path / CANARY).write_text(f"{CANARY} {TEXT}\n")
    count = 0
    for path, command in commands():
        name = {"name": "another"} if path[0] == "collection" else {}  # the logs have names of collections
        for arguments in arguments_of(command, each, known | name):
            done = run(*path, *arguments, cwd=tmp_path)
            count += 1
            said = [line for line in done.stderr.splitlines() if CANARY in line]
            assert all(line.startswith(("palimpsest: ", "collection ", "rejected: ")) for line in said), (path, said)
    assert count > 170
    for words in (CANARY, TEXT):
        assert written_in(home, words) == []
        assert written_in(home, words, ("dagster",)) == []
        assert not [span.name for span in spans.get_finished_spans() if words in span.to_json()]
    assert {"build", "delete"} <= {span.name for span in spans.get_finished_spans()}


@contextmanager
def model_and_collector(status: int) -> Iterator[tuple[str, list[bytes]]]:
    """Yields the address of a server, and what it got as traces: of a model whose answers nobody can read."""
    traces: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_trace = self.path == "/v1/traces"
            traces.extend([body] if is_trace else [])
            refusal = {"error": {"message": f"Incorrect API key provided: {KEY} {ANSWER}"}}
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}
            made = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
            self.send_response(200 if is_trace else status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(made if status == 200 else refusal).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", traces
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
@pytest.mark.lm
@pytest.mark.parametrize("status, code", [(200, 3), (401, 2)])
def test_no_text_answer_or_key_of_a_build_reaches_a_log_a_trace_or_dagster(tmp_path, embed_corpus, status, code):
    corpus = write_corpus(tmp_path)
    home = embed_corpus(tmp_path / "home", corpus)
    for name, more in (("chats", "form: [turn, reflection]\nreflection: lm\n"), ("notes", "facts: lm\n")):
        settings = corpus / name / "collection.yaml"
        settings.write_text(settings.read_text() + more)
    with model_and_collector(status) as (url, traces):
        model = {"PALIMPSEST_LM": f"m@{url}/v1", "PALIMPSEST_LM_KEY": KEY, "PALIMPSEST_LM_ATTEMPTS": "1"}
        telemetry = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_HEADERS": f"key={KEY}"}
        environment = model | telemetry | {"PALIMPSEST_LABELER": "dspy", "PALIMPSEST_ALERT_URL": f"{url}/{KEY}"}
        done = process("build", "--home", home, "--corpus", corpus, cwd=tmp_path, **environment)
    assert done.returncode == code, done.stderr
    assert traces and b"stage notes" in b"".join(traces)
    assert list((home / "dagster").rglob("*.db"))
    for words in (TEXT, ANSWER, KEY):
        assert written_in(home, words, (*LOGS, "dagster")) == [] and words.encode() not in b"".join(traces)
        assert words not in done.stderr
    for words in (CANARY,):
        assert written_in(home, words) == [] and words.encode() not in b"".join(traces)
    outside = [p for place in tmp_path.glob("*HOME") for p in place.rglob("*") if p.is_file()]
    assert [p for p in outside if any(w.encode() in p.read_bytes() for w in (TEXT, ANSWER, KEY, CANARY))] == []
