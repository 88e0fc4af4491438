"""Is a text a cron expression? Without the libraries that compute its times, which the base does not install."""

import re
from dataclasses import dataclass

_MACROS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True)
class _Field:
    """What one of the five fields may contain: numbers, their names, and a pattern of forms that only it has."""

    lowest: int
    highest: int
    names: tuple[str, ...] = ()
    special: str = ""

    def allows(self, text: str) -> bool:
        """Returns whether a field is a list of values, ranges and steps within its bounds."""
        return all(self._is_item(item) for item in text.split(","))

    def _is_item(self, item: str) -> bool:
        if re.fullmatch(self.special, item):
            return bool(item)
        values, slash, step = item.partition("/")
        if slash and not (step.isdecimal() and int(step[:4]) > 0):
            return False
        first, dash, last = values.partition("-")
        return values == "*" or (self._is_value(first) and (not dash or self._is_value(last)))

    def _is_value(self, text: str) -> bool:
        if text in self.names:
            return True
        return text.isdecimal() and len(text) < 3 and self.lowest <= int(text) <= self.highest


_FIELDS = (
    _Field(0, 59),
    _Field(0, 23),
    _Field(1, 31, special=r"\?|l"),
    _Field(1, 12, _MONTHS),
    _Field(0, 7, _DAYS, special=r"\?|l[0-7]|(?:[0-7]|[a-z]{3})#[1-5]"),
)


def is_cron(text: str) -> bool:
    """Returns whether a text is a cron expression: five fields, or a word such as `@daily`."""
    fields = text.lower().split()
    if len(fields) == 1:
        return fields[0] in _MACROS
    return len(fields) == len(_FIELDS) and all(f.allows(t) for f, t in zip(_FIELDS, fields, strict=True))
