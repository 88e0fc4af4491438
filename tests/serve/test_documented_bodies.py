"""Each body in docs/service.md is accepted, and each endpoint that takes a body has one there."""

import json
import re
from pathlib import Path

import pytest

from palimpsest.store.proposals import Proposal, write_proposals

PAGE = Path(__file__).resolve().parents[2] / "docs" / "service.md"
KEPT = "cdb6bb060420f927"
BODIES = re.findall(r"^    (POST|PUT) (\S+) (\{.*\})$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_each_endpoint_with_a_body_has_an_example(clients):
    paths = clients("ann").get("/openapi.json").json()["paths"]
    taking = {
        (method.upper(), re.sub(r"\{\w+\}", "{id}", path))
        for path, methods in paths.items()
        for method, described in methods.items()
        if "requestBody" in described
    }
    assert {(method, path) for method, path, _ in BODIES} == taking


@pytest.mark.parametrize(("method", "path", "body"), BODIES)
def test_each_example_is_accepted(writers, home, method, path, body):
    ann = writers("ann")
    found = ann.get("/search?q=bike+work&collection=chats&history=true").json()["memories"]
    first, second = (m["memory_id"] for m in found[:2])
    proposal = Proposal("contradiction", "values", ("chats", "ann", ""), (first, second), "one of them", 0.8)
    write_proposals(home.path, [proposal])
    path = path.replace("{id}", proposal.proposal_id if "proposals" in path else first)
    answer = ann.request(method, path, json=json.loads(body.replace(KEPT, first)))
    assert answer.status_code in (200, 202), answer.text
