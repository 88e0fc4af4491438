"""One setting: its names, the type of its value, and what a file may say of it."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from palimpsest.core.cron import is_cron
from palimpsest.core.times import is_time_zone

Kind = Literal["text", "path", "whole", "amount", "switch", "names", "choice", "cron", "zone", "bytes", "prices"]
_MAX_CHARS = 4096
_EXAMPLES = {
    "text": "a text in quotes",
    "path": "a path in quotes",
    "amount": "a number of 0 or more",
    "switch": "true or false",
    "names": 'a list such as ["a", "b"]',
    "cron": "a cron expression of five fields, such as '0 3 * * *'",
    "zone": "the IANA name of a time zone, such as 'Europe/Berlin'",
    "bytes": "a number with k, m or g, such as '2g'",
    "prices": "two numbers in quotes, such as '0.15,0.6'",
}
_PATTERNS = {
    "bytes": re.compile(r"[1-9][0-9]{0,8}[kmgKMG]"),
    "prices": re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?\s*,\s*[0-9]{1,9}(?:\.[0-9]{1,9})?"),
}


@dataclass(frozen=True)
class Setting:
    """A row of the table of settings.

    Attributes:
        key: its name in files: `section.name`, or a name alone.
        variable: the environment variable.
        default: what counts where no layer sets it, as the table shows it.
        description: what it is, in Markdown; links are relative to docs/reference.
        kind: the type of its value.
        lowest: of a whole number; of a text its bytes.
        highest: of a whole number.
        choices: the words of a choice.
        words: what the variable is for true and for false.
        is_secret: it is never shown, and a project file may not have it.
        directs: it decides where texts or keys are sent, which model is loaded (its folder may have code) or whose word
            is taken; from a project file it counts only where the user trusts that file.
        alternatives: name of a group of which one counts: a layer that sets one hides the others of layers below it.
    """

    key: str
    variable: str
    default: str
    description: str
    kind: Kind = "text"
    lowest: int = 0
    highest: int = 0
    choices: tuple[str, ...] = ()
    words: tuple[str, str] = ("on", "off")
    is_secret: bool = False
    directs: bool = False
    alternatives: str = ""

    @property
    def section(self) -> str:
        """The section of a file that it is in; "" for none."""
        return self.key.rpartition(".")[0]

    @property
    def name(self) -> str:
        """Its name inside the section."""
        return self.key.rpartition(".")[2]

    @property
    def wanted(self) -> str:
        """What a value in a file must be."""
        if self.kind == "whole":
            return f"a whole number from {self.lowest:,} to {self.highest:,}"
        if self.kind == "text" and self.lowest:
            return f"a text of {self.lowest} bytes or more, such as of `openssl rand -hex {self.lowest}`"
        if self.kind == "choice":
            return f"one of {', '.join(map(repr, self.choices))}"
        return _EXAMPLES[self.kind]

    def to_variable(self, value: object, folder: Path) -> str:
        """Returns what the environment variable is for a value in a file.

        Args:
            value: as TOML has it.
            folder: of the file: relative paths are relative to it.

        Raises:
            ValueError: the value is of another type, or outside its range; the message says what it must be.
        """
        if not self._is_valid(value):
            raise ValueError(f"must be {self.wanted}")
        if isinstance(value, bool):
            return self.words[0] if value else self.words[1]
        text = ",".join(value) if isinstance(value, list) else str(value)
        if len(text) > _MAX_CHARS or not text.isprintable():
            raise ValueError(f"must have {_MAX_CHARS:,} printable characters at most")
        is_path = self.kind == "path" and "://" not in text  # a home may be the URL of a bucket
        return str(folder.absolute() / Path(text).expanduser()) if is_path else text

    def from_text(self, text: str) -> str | int | float | bool | list[str]:
        """Returns the value for a file that is meant by a text on the command line.

        Raises:
            ValueError: the text is no such value; the message says what it must be.
        """
        value: str | int | float | bool | list[str] = text
        try:
            if self.kind == "whole":
                value = int(text)
            elif self.kind == "amount":
                value = float(text)
        except ValueError:
            raise ValueError(f"must be {self.wanted}") from None
        if self.kind == "switch":
            value = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}.get(text, text)
        elif self.kind == "names":
            value = [name.strip() for name in text.split(",") if name.strip()]
        self.to_variable(value, Path())
        return value

    def _is_valid(self, value: object) -> bool:
        if self.kind == "switch":
            return isinstance(value, bool)
        if isinstance(value, bool):
            return False
        if self.kind == "whole":
            return isinstance(value, int) and self.lowest <= value <= self.highest
        if self.kind == "amount":
            return isinstance(value, int | float) and math.isfinite(value) and value >= 0
        if self.kind == "names":
            return isinstance(value, list) and all(isinstance(n, str) and n.strip() and "," not in n for n in value)
        if self.kind == "choice":
            return isinstance(value, str) and value in self.choices
        if not isinstance(value, str) or not value.strip():
            return False
        if self.kind in _PATTERNS:
            return _PATTERNS[self.kind].fullmatch(value) is not None
        if self.kind == "cron":
            return is_cron(value)
        return is_time_zone(value) if self.kind == "zone" else len(value.encode()) >= self.lowest
