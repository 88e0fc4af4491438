"""One shape of a message: what is read of it, of older shapes, and what is refused."""

import datetime as dt
import warnings

import pytest

from palimpsest.core.errors import ArgumentError
from palimpsest.core.message import OlderShapeWarning, read_messages

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "given",
    [
        {"role": "user", "content": "Hi", "name": "Ann", "created_at": "2026-03-01T12:00:00Z"},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}], "name": "Ann", "created_at": NOON},
        {"role": "user", "content": "Hi", "name": "Ann", "created_at": "2026-03-01T12:00:00", "tool_calls": None},
    ],
)
def test_a_message_has_its_text_name_and_time_and_a_null_field_counts_as_left_out(given):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (message,) = read_messages([given])
    assert (message.role, message.text, message.name, message.created_at) == ("user", "Hi", "Ann", NOON)


@pytest.mark.parametrize(
    ("given", "role", "name"),
    [
        ("Hi", "", None),
        ({"text": "Hi", "role": "assistant"}, "assistant", None),
        ({"text": "Hi", "speaker": "Ann", "timestamp": "2026-03-01T12:00:00Z"}, "", "Ann"),
        ({"content": "Hi"}, "", None),
    ],
)
def test_an_older_shape_is_read_with_a_warning_and_once_read_with_none(given, role, name):
    with pytest.warns(OlderShapeWarning, match="one more release"):
        (message,) = read_messages([given])
    assert (message.role, message.text, message.name, message.is_older) == (role, "Hi", name, True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_messages([message]) == [message]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"role": "user"}, "message 1: content: Field required"),
        (
            {"role": "user", "content": [{"type": "image_url", "text": "x"}]},
            "message 1: content: Input should be 'text'",
        ),
        ({"role": "user", "content": "a", "created_at": 5}, "message 1: created_at: not a time"),
        ({"role": " ", "content": "a"}, "message 1: role: is empty"),
        (
            {"role": "user", "content": "a", "tool_calls": [1]},
            "message 1: tool_calls: not a field; the fields are role",
        ),
        (3, "message 1: Input should be a valid dictionary"),
    ],
)
def test_what_cannot_be_read_is_named(given, problem):
    with pytest.raises(ArgumentError) as error:
        read_messages([given], "file")
    assert str(error.value).startswith(f"file: {problem}")
