"""Numbers count what the caller may see: nothing of a memory that is hidden, personal or past its retention."""

import datetime as dt
import json

import pytest

from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_home
from palimpsest.query.request.types import Scope
from palimpsest.serve.app import create_app
from palimpsest.serve.settings import ServeSettings
from palimpsest.store.home import Home
from tests.serve.conftest import TOKENS, client_of
from tests.serve.test_rare_tools import call

SEEN = ["Mira works at Basin in Ghent.", "Mira plays the cello with Tom Vale."]
HIDDEN = {"Zora Quill lives in Utrecht.": {"user_visible": False}, "Zeno Pratt works at Zircon.": {"pii": True}}
EXPIRING = {"Zelda Frey lives in Aalst.": {"retention_days": 1}}
SCOPE = Scope("chats", "ann")


@pytest.fixture(scope="module")
def hidden_home(tmp_path_factory, shared_vectors):
    """A built home with memories of ann, two of which are left out of answers, and one of which soon is."""
    base = tmp_path_factory.mktemp("hidden")
    folder = base / "corpus" / "chats"
    folder.mkdir(parents=True)
    (folder / "collection.yaml").write_text("name: chats\ndescription: small talk\nunit: turn\nuser_id: ann\n")
    texts = {text: {} for text in SEEN} | HIDDEN | EXPIRING
    now = dt.datetime.now(dt.UTC).isoformat()
    rows = [
        {"session_id": f"s{n}", "text": text, "timestamp": now} | ({"privacy": marks} if marks else {})
        for n, (text, marks) in enumerate(texts.items())
    ]
    (folder / "turns.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    home = Home(base / "home", shared_vectors)
    run_without_dagster(home, make_plan(home, [base / "corpus"]))
    return home


def test_totals_of_the_graph_and_its_pages_count_visible_nodes_alone(hidden_home):
    client = client_of(create_app(hidden_home, ServeSettings(TOKENS, 100_000, 100_000)), "ann")
    with open_home(hidden_home.path) as reader:
        everything = reader.graph_page(SCOPE, limit=5_000, include_hidden=True, include_pii=True)
    whole, outline = client.get("/graph?limit=5000").json(), client.get("/graph/outline").json()
    names = {n["name"] for n in whole["nodes"]}
    assert {"Mira", "Basin"} <= names and not {"Zora Quill", "Zeno Pratt", "Zircon"} & names
    assert whole["total"] == outline["total_nodes"] == len(whole["nodes"]) == len(outline["nodes"]) < everything.total
    assert [n["id"] for n in outline["nodes"]] == [n["id"] for n in whole["nodes"]]
    pages, offset = [], 0
    while offset is not None:
        page = client.get(f"/graph?limit=2&offset={offset}").json()
        assert page["total"] == whole["total"]
        assert len(page["nodes"]) == min(2, whole["total"] - offset), "a gap would say where a hidden node is"
        pages, offset = pages + page["nodes"], page["next_offset"]
    assert pages == whole["nodes"]
    small = client.get("/graph/outline", params={"nodes": 3}).json()
    assert len(small["nodes"]) == 3 and small["total_nodes"] == whole["total"]


def test_numbers_of_memories_count_visible_ones_alone(hidden_home, monkeypatch):
    client = client_of(create_app(hidden_home, ServeSettings(TOKENS, 100_000, 100_000)), "ann")
    assert client.get("/users/me").json()["memories"] == len(SEEN) + len(EXPIRING)
    info = call(hidden_home, "ann", "collection_info", {"collection": "chats"})
    assert info["memories"] == len(SEEN) + len(EXPIRING)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=2)
    monkeypatch.setattr("palimpsest.serve.mcp_server._now", lambda: later)
    assert call(hidden_home, "ann", "collection_info", {"collection": "chats"})["memories"] == len(SEEN)
    documents = call(hidden_home, "ann", "list_documents")["documents"]
    assert sum(d["memories"] for d in documents) == len(SEEN)
