"""A message of a conversation, in the one shape that is read and returned everywhere: that of OpenAI's API."""

import datetime as dt
import warnings
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    Tag,
    ValidationError,
    model_validator,
)

from palimpsest.core.errors import ArgumentError
from palimpsest.core.times import parse_time

OLDER_SHAPES = (
    'a message is {"role", "content", "name", "created_at"}; bare texts and the fields text, speaker and timestamp '
    "are read for one more release"
)
DEPRECATED_SINCE = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
_NEW_NAMES = {"text": "content", "speaker": "name", "timestamp": "created_at"}
_MAX_CHARS = 1_000_000


class OlderShapeWarning(FutureWarning):
    """A message has a shape that the next release does not read."""


def _not_blank(name: str) -> str:
    """Returns a name as it is.

    Raises:
        ValueError: it is empty.
    """
    if not name.strip():
        raise ValueError("is empty; give one, or leave it out")
    return name


def _time(value: object) -> dt.datetime | None:
    """Returns a time in ISO form; a number is none, which pydantic would take as seconds since 1970.

    Raises:
        ValueError: it is no time.
    """
    try:
        return parse_time(value if isinstance(value, str | dt.datetime | None) else "")
    except (ValueError, OverflowError):
        raise ValueError("not a time; write 2024-05-31T12:00:00Z") from None


def _encodable(value: object) -> object:
    """Returns a text without lone halves of characters, which some clients cut texts into; else the value."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


Name = Annotated[str, Field(max_length=256, json_schema_extra={"minLength": 1}), AfterValidator(_not_blank)]


class TextPart(BaseModel):
    """A part of a content; only texts are read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    type: Literal["text"]
    text: str = Field(max_length=_MAX_CHARS)


class Message(BaseModel):
    """A message of a conversation. A field that is null counts as one that is left out."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        json_schema_extra={"examples": [{"role": "user", "content": "I moved to Ghent.", "name": "ann"}]},
    )

    role: Name = Field(description="user, assistant, system, developer or tool")
    content: Annotated[
        Annotated[str, Field(max_length=_MAX_CHARS), Tag("text")]
        | Annotated[list[TextPart], Field(max_length=1_000), Tag("parts")],
        Discriminator(lambda content: "parts" if isinstance(content, list) else "text"),  # an error is of that one
    ] = Field(description="a text, or parts of type text")
    name: Name | None = Field(None, description="who says it, where the role does not name them")
    created_at: Annotated[dt.datetime, BeforeValidator(_time)] | None = Field(
        None, description="when it was said (ISO 8601; UTC without an offset)"
    )
    _is_older: bool = False

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: ModelWrapValidatorHandler["Message"]) -> "Message":
        """Returns a message; an older shape may have no role, which is then empty."""
        if isinstance(value, Message):
            return value
        given = {"text": value} if isinstance(value, str) else value
        if not isinstance(given, Mapping):
            return handler(given)
        given = {n: _encodable(v) for n, v in given.items() if v is not None and (v != "" or n in ("content", "text"))}
        new = {_NEW_NAMES.get(n, n): v for n, v in given.items()}
        if len(new) < len(given) or (new == given and "role" in new) or not isinstance(new.get("content"), str):
            return handler(given)
        message = handler({"role": "user", **new}).model_copy(update={} if "role" in new else {"role": ""})
        message._is_older = True
        return message

    @classmethod
    def of_text(cls, text: str, name: str | None = None) -> "Message":
        """Returns a text without a role, as people write one on the command line or in a file of questions."""
        return cls.model_construct(role="", content=text, name=name or None)

    @property
    def is_older(self) -> bool:
        """Whether it had a shape that the next release does not read."""
        return self._is_older

    @property
    def text(self) -> str:
        """Its content as one text, a line for each part."""
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


def read_messages(values: Iterable[object], argument: str = "turns") -> list[Message]:
    """Returns messages: the one function that reads them. Warns of an older shape.

    Args:
        values: messages, or mappings of their fields.
        argument: names them in errors.

    Raises:
        ArgumentError: they are no list, or one of them cannot be read; the message names it and its field.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise ArgumentError(argument, "must be a list of messages with role and content")
    given = list(values)
    messages: list[Message] = []
    for number, value in enumerate(given, 1):
        try:
            messages.append(Message.model_validate(value))
        except ValidationError as e:
            first = e.errors(include_url=False)[0]
            said = "not a field" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
            problem = ": ".join([f"message {number}", *map(str, first["loc"][:1]), said])
            raise ArgumentError(argument, f"{problem}; the fields are {', '.join(Message.model_fields)}") from None
    if any(m.is_older for m, value in zip(messages, given, strict=True) if m is not value):
        warnings.warn(f"{argument}: {OLDER_SHAPES}", OlderShapeWarning, stacklevel=4)
    return messages
