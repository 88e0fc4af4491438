"""Requests that the OpenAPI description allows, and others: no server error, and no break of the contract."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from palimpsest.serve.app import create_app
from palimpsest.serve.guard import make_token
from palimpsest.serve.settings import ServeSettings
from tests.serve.conftest import TOKENS, client_of

# What a description cannot say is refused too: a question without a word, a condition that is none, no such collection.
NOT_CHECKED = [positive_data_acceptance]
ENDLESS = "/events"
DELETES_ALL = "DELETE /users/me"


@pytest.fixture
def app(home):
    made = create_app(home, ServeSettings(TOKENS, 10_000_000, 10_000_000))
    yield made
    made.state.service.deletions.close()
    made.state.service.reader.close()


def send_requests(operation, mode, examples, known) -> int:
    """Sends requests of one endpoint, half of those about a memory for one that the caller has; returns how many."""
    token = {"Authorization": f"Bearer {make_token(TOKENS, 'nobody' if operation.label == DELETES_ALL else 'ann')}"}
    sent = 0

    @given(operation.as_strategy(generation_mode=mode), st.booleans(), st.sampled_from(known))
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    def send(case, is_known, memory_id):
        nonlocal sent
        sent += 1
        if is_known and mode is GenerationMode.POSITIVE and "memory_id" in (case.path_parameters or {}):
            case.path_parameters["memory_id"] = memory_id
        case.call_and_validate(headers=token, excluded_checks=NOT_CHECKED)

    try:
        send()
    except Unsatisfiable:  # an endpoint without parameters has nothing to get wrong
        assert mode is GenerationMode.NEGATIVE
    return sent


@pytest.mark.parametrize("examples", [6, pytest.param(1000, marks=pytest.mark.slow)])
def test_every_endpoint_keeps_its_contract(app, examples):
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    known = [m["memory_id"] for m in client_of(app, "ann").get("/search?q=bike+work&k=10").json()["memories"]]
    operations = [o for o in (result.ok() for result in schema.get_all_operations()) if o.path != ENDLESS]
    assert len(operations) > 25
    sent = 0
    for operation in operations:
        for mode in GenerationMode:
            sent += send_requests(operation, mode, examples, known)
        # A delete that still runs has the home, and a change is then answered 503, as described; others are dropped.
        deletions = app.state.service.deletions
        deletions.close()
        deletions._pool = ThreadPoolExecutor(1)
    print(f"{sent:,} requests of {len(operations)} endpoints")
