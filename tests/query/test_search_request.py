import datetime as dt
import json
from typing import get_args

import jsonschema
import pytest

from palimpsest.cli.shared import STRATEGY
from palimpsest.core.errors import ArgumentError
from palimpsest.query import Scope, SearchRequest, SearchResult, open_index
from palimpsest.query.request.search_request import OPTIONS, SearchOptions, StrategyName, offer
from palimpsest.query.request.strategies import STRATEGIES
from tests.query.made import at, memory, tables, write

ANA = Scope("notes", "ana")


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    path = tmp_path_factory.mktemp("request") / "i.duckdb"
    facts = [
        memory("m1", "The launch is on Monday.", observed_at=at("2024-01-01")),
        memory("m2", "The launch moved to Friday.", observed_at=at("2024-02-01")),
        memory("m3", "The van is red.", observed_at=at("2024-02-02")),
    ]
    write(tables(facts, [("m2", "m1")], [("m3", "m2", "EXTEND")]), path)
    with open_index(path) as r:
        yield r


def test_a_request_in_json_is_the_request_that_a_search_makes():
    data = {
        "text": " When?\0",
        "k": 3,
        "as_of": "2024-01-15",
        "since": "2023-12-01",
        "history": True,
        "strategy": "flat",
    }
    jsonschema.validate(data, SearchRequest.json_schema())
    request = SearchRequest.from_json(json.loads(json.dumps(data)), ANA)
    assert request == SearchRequest.create(
        "When?", ANA, k=3, as_of=dt.date(2024, 1, 15), since=dt.date(2023, 12, 1), history=True, strategy="flat"
    )
    assert request.scopes == (ANA,) and request.as_of == dt.datetime.combine(request.as_of, dt.time.max, dt.UTC)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"text": "x", "limit": 3}, "limit: not a field of a search; the fields are text, project, session, k"),
        ({"k": 3}, "text: is missing"),
        ({"text": "x", "k": "3"}, "k='3': must be a valid integer"),
        ({"text": "x", "k": True}, "k=True: must be a valid integer"),
        ({"text": "x", "history": 1}, "history=1: must be a valid boolean"),
        ({"text": "x", "session": 5}, "session=5: must be a text"),
        ({"text": "x", "session": " "}, "session: is empty; give one, or leave it out"),
        ({"text": "x", "project": ""}, "project: is empty; give one, or leave it out"),
        (
            {"text": "x", "depth": 2},
            "strategy='auto': must be hierarchical with narrow, node_types, node_where or depth",
        ),
        ({"text": "x", "k": 0}, "k=0: must be 1 to 1000"),
        ({"text": "x", "until": "soon"}, "until='soon': not a date"),
        ({"text": "x", "scope": ["notes", "ben"]}, "scope: not a field of a search"),
    ],
)
def test_a_wrong_field_is_named_and_never_as_an_option_of_the_command_line(data, message):
    with pytest.raises(ArgumentError) as error:
        SearchRequest.from_json(data, ANA)
    assert str(error.value).startswith(message) and "--" not in str(error.value)


def test_the_schema_has_every_field_but_the_scope_with_its_default():
    properties = SearchRequest.json_schema()["properties"]
    assert [*properties] == ["text", *OPTIONS]
    assert SearchRequest.create("x", ANA) == SearchRequest.from_json(
        {"text": "x"} | {n: p["default"] for n, p in properties.items() if n != "text"}, ANA
    )


def test_the_keyword_arguments_of_a_search_are_the_fields_of_a_request():
    assert [*SearchOptions.__annotations__] == [*OPTIONS]


def test_no_request_of_the_service_asks_for_what_is_hidden_or_for_a_language_model():
    served = {name for name, field in OPTIONS.items() if offer(field).served}
    assert served and served.isdisjoint({"include_hidden", "include_pii", "compress", "accessed_within"})


def test_the_strategies_that_may_be_named_exist():
    assert [*STRATEGY.choices] == [*get_args(StrategyName)]
    assert {*STRATEGY.choices} - {"auto"} <= {*STRATEGIES}


@pytest.mark.parametrize(
    "options", [{}, {"explain": True, "hops": 2}, {"history": True}, {"as_of": "2024-01-15"}, {"tags": ["none"]}]
)
def test_an_answer_in_json_follows_its_schema(reader, options):
    found = reader.run(SearchRequest.create("When is the launch?", ANA, **options))
    schema = SearchResult.json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(json.dumps(found.to_json())), schema)
    again = reader.search("When is the launch?", ANA, **options)
    assert [m.memory_id for m in found.memories] == [m.memory_id for m in again.memories]
