"""Quantities of a text in units that compare."""

import pytest

from palimpsest.text.quantities import compare_quantities, quantities

TEXTS = [
    ("The timeout is 90 seconds.", {("duration", 90.0)}), ("It waits one and a half minutes.", {("duration", 90.0)}),
    ("It costs twenty-five euros.", {("money", 25.0)}), ("now €1,200", {("money", 1200.0)}),
    ("48k a year", {("count year", 48000.0)}), ("Wednesday at 5", {("weekday", 2.0), ("clock", 300.0)}),
    ("the doors open at 6 pm", {("clock", 1080.0)}), ("18:00 sharp", {("clock", 1080.0)}),
    ("Sunday 17 May", {("weekday", 6.0), ("date", 141.0)}), ("they may come", set()),
    ("since March 2024", {("month", 2.0), ("year", 2024.0)}), ("24 °C in the hall", {("temperature", 24.0)}),
    ("a dozen eggs", {("count egg", 12.0)}), ("12 pins", {("count pin", 12.0)}), ("3.5 km", {("length", 3500.0)}),
    ("", set()),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_quantities_are_read_with_their_kind_and_base_unit(text, expected):
    assert quantities(text) == expected


def test_equal_amounts_in_other_units_are_the_same_and_other_amounts_replace():
    same = compare_quantities("The timeout is 90 seconds.", "Aborted after one and a half minutes.")
    assert (same["quantity_same"], same["quantity_replaced"]) == (1, 0)
    other = compare_quantities("Studio B costs 25 euros.", "You pay €30 for studio B.")
    assert (other["quantity_same"], other["quantity_replaced"]) == (0, 1)
    count = compare_quantities("toured nine countries", "the map has twelve pins")
    assert count["count_differs"] == 1 and count["quantity_replaced"] == 0
