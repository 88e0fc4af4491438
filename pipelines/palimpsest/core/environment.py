"""Numbers that environment variables give."""

import os

from palimpsest.core.errors import PalimpsestError


def whole_number(variable: str, default: int, lowest: int, highest: int) -> int:
    """Returns the number that an environment variable gives, the default where it is not set.

    Raises:
        PalimpsestError: it is no whole number in the range.
    """
    text = os.environ.get(variable, "").strip() or str(default)
    if not (text.isascii() and text.isdigit() and lowest <= int(text) <= highest):
        raise PalimpsestError(f"{variable}: {text[:40]!r} must be a whole number, {lowest:,} to {highest:,}")
    return int(text)
