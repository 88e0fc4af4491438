"""A cron expression is one exactly where the scheduler takes it."""

import pytest

from palimpsest.core.times import is_cron


@pytest.mark.parametrize(
    "text",
    [
        *("0 3 * * *", "5/15 * * * *", "0 22-2 * * mon-fri", "0 0 1 Jan-mar *", "* * * * 7", "@daily", "0 0 l * *"),
        *("0 0 ? * *", "0 0 * * fri#2", "0 0 * * L5", "1-5/2,7 * * * *", "*/70 * * * *"),
        *("0 3 * *", "0 3 * * * *", "60 * * * *", "*/0 * * * *", "0 0 0 * *", "@reboot", "at night", "", "0 0 15W * *"),
        *("1,,2 * * * *", "- * * * *", "-1 * * * *", "0 0 * 13 *", "1- * * * *", "0 0 * * 5L"),
    ],
)
def test_the_same_expressions_count_as_for_dagster(text):
    from dagster._utils.schedules import is_valid_cron_string

    assert is_cron(text) == is_valid_cron_string(text)
