"""Notebook 8 over real HTTP, with a scripted server in the model's place; then the build that forms its session."""

import re
import shutil
from dataclasses import replace

import pytest

from palimpsest.pipeline.document_info import operation_status
from palimpsest.pipeline.finish import run_without_dagster
from palimpsest.pipeline.plan import make_plan
from palimpsest.query import open_home
from tests.notebooks.conftest import run_notebook


@pytest.mark.lm
def test_a_chat_is_answered_with_citations_and_its_session_is_formed_by_the_next_build(home, tmp_path, shared_vectors):
    shutil.copytree(home.path, tmp_path / "home")
    home = replace(home, path=tmp_path / "home")
    outputs = str([c.get("outputs") for c in run_notebook("8_chat", home, {}).cells])
    assert "assistant: " in outputs and re.search(r"assistant: [^\n]*\[\d+\]", outputs) and "Traceback" not in outputs
    assert "'state': 'received'" in outputs and "not instructions" in outputs and "(diary/ines; 20" in outputs
    with open_home(home.path) as reader:
        pending = reader.search("Where do I live?", ("diary", "ines"), include_pending=True).pending
    assert {m.session_id for m in pending} == {"notebook-chat"} and pending[0].speaker in ("user", "assistant")
    run_without_dagster(home, make_plan(home, None))
    assert operation_status(home, "notebook-chat").state == "published"
    with open_home(home.path) as reader:
        formed = reader.search("Where do I live?", ("diary", "ines"), session="notebook-chat", all_results=True)
    assert {m.speaker for m in formed.memories} == {"user", "assistant"}
