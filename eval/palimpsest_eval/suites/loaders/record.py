"""Objects of a public data set, read strictly: an error names the file, the item and the field."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.json_types import JsonObject, JsonValue


@dataclass(frozen=True)
class Record:
    """An object of a file.

    Attributes:
        values: its fields.
        where: the file and the item or line, for messages.
        path: where the object is in its item, such as `conversation.session_1[0].`; empty for the item itself.
    """

    values: Mapping[str, JsonValue]
    where: str
    path: str = ""

    def get(self, name: str) -> JsonValue:
        """Returns a field as it is, None where there is none."""
        return self.values.get(name)

    def text(self, name: str) -> str:
        """Returns a field that must be a text with characters, or a whole number, which becomes one.

        Raises:
            PalimpsestError: it is missing or something else.
        """
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
            self.fail(name, "is required and must be a text that is not empty")
        return str(value)

    def items(self, name: str, required: bool = True) -> list[JsonValue]:
        """Returns a field that must be a list; an empty one where it is missing and not required.

        Raises:
            PalimpsestError: it is missing and required, or no list.
        """
        value = self.values.get(name)
        if value is None and not required:
            return []
        if not isinstance(value, list):
            self.fail(name, "is required and must be a list" if required else "must be a list")
        return value

    def child(self, name: str) -> "Record":
        """Returns a field that must be an object.

        Raises:
            PalimpsestError: it is missing or no object.
        """
        value = self.values.get(name)
        if not isinstance(value, dict):
            self.fail(name, "is required and must be an object")
        return Record(value, self.where, f"{self.path}{name}.")

    def children(self, name: str, required: bool = True) -> list["Record"]:
        """Returns a field that must be a list of objects; none where it is missing and not required.

        Raises:
            PalimpsestError: it is missing and required, no list, or one of its entries is no object.
        """
        return self.objects(name, self.items(name, required))

    def objects(self, name: str, entries: Iterable[JsonValue]) -> list["Record"]:
        """Returns the entries of a list, which must be objects.

        Raises:
            PalimpsestError: one is not.
        """
        found = []
        for i, entry in enumerate(entries):
            if not isinstance(entry, dict):
                self.fail(f"{name}[{i}]", "must be an object")
            found.append(Record(entry, self.where, f"{self.path}{name}[{i}]."))
        return found

    def fail(self, name: str, problem: str) -> NoReturn:
        """Reports a field.

        Raises:
            PalimpsestError: always; the message names file, item and field.
        """
        raise PalimpsestError(f"{self.where}: {self.path}{name} {problem}")


def records(items: Iterable[JsonObject], file: str) -> list[Record]:
    """Returns the items of a file, counted from 1."""
    return [Record(item, f"{file} item {number}") for number, item in enumerate(items, 1)]
