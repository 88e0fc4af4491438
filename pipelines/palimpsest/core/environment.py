"""Numbers that environment variables give."""

import os

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.setting_table import BY_VARIABLE


def whole_number(variable: str) -> int:
    """Returns the number that the environment variable of a setting gives, its default where it is not set.

    A default that is no number, such as no limit, is the lowest number.

    Raises:
        PalimpsestError: it is no whole number in the range of the setting.
    """
    setting = BY_VARIABLE[variable]
    default = setting.default if setting.default.isdigit() else str(setting.lowest)
    text = os.environ.get(variable, "").strip() or default
    if not (text.isascii() and text.isdigit() and setting.lowest <= int(text) <= setting.highest):
        wanted = f"{setting.lowest:,} to {setting.highest:,}"
        raise PalimpsestError(f"{variable}: {text[:40]!r} must be a whole number, {wanted}")
    return int(text)
