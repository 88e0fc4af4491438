import json
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.sources.readers import json_values
from palimpsest.sources.readers.json_values import JsonReader

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.lists(VALUES, max_size=6), st.sampled_from((None, 2)), st.booleans(), st.integers(1, 40))
def test_an_array_read_by_items_is_the_array(values: list, indent: int | None, is_ascii: bool, window: int) -> None:
    data = json.dumps(values, indent=indent, ensure_ascii=is_ascii).encode()
    with patch.object(json_values, "_WINDOW_BYTES", window):
        for encoded in (data, b"\xef\xbb\xbf \n" + data + b" \r\n"):
            assert list(JsonReader().decode_items(encoded)) == values


@pytest.mark.parametrize("number", [0.5, 0.0, 1e22, 1.5e-9, -12])
@pytest.mark.parametrize("window", [1, 2, 3, 4, 5])
def test_a_number_may_go_on_behind_the_window(number: float, window: int) -> None:
    with patch.object(json_values, "_WINDOW_BYTES", window):
        assert list(JsonReader().decode_items(json.dumps([number, 7]).encode())) == [number, 7]


@given(st.binary(max_size=12) | st.text("[]{},:\"\\ 01e.-tru'", max_size=12).map(str.encode), st.integers(1, 5))
def test_items_are_those_of_an_array_that_json_reads_and_others_are_an_error(data: bytes, window: int) -> None:
    try:
        expected = json.loads(data.decode())
    except ValueError:
        expected = None
    with patch.object(json_values, "_WINDOW_BYTES", window):
        if isinstance(expected, list):
            assert list(JsonReader().decode_items(data)) == expected
        else:
            with pytest.raises(ValueError):
                list(JsonReader().decode_items(data))


def test_a_field_that_an_item_states_twice_is_repeated() -> None:
    reader = JsonReader()
    assert len(list(reader.decode_items(b'[{"a": 1, "a": 2}, {"b": 1}, {"c": 1, "c": 2}]'))) == 3
    assert reader.repeated == ["a", "c"]
