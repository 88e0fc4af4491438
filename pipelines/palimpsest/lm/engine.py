"""A DSPy program and one request of it, from the ledger or by the server; and what guards texts and answers."""

import json
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, content_id
from palimpsest.core.imports import import_with_json_schema
from palimpsest.lm.client import BudgetSpent, ChatMessage, Ledger, LmAnswer, LmClient, LmUnavailable, PaidCalls
from palimpsest.lm.settings import Budget, LmSettings, answer_adapter, highest_cost, response_format

if TYPE_CHECKING:
    import dspy
    from dspy import lm15

Found = TypeVar("Found")


@dataclass(frozen=True)
class LmProgram(Generic[Found]):
    """A DSPy program, and what its runner has to know of it.

    Attributes:
        name: for messages and for the schema of an answer.
        program_hash: of what an answer depends on besides the model and the input.
        instructions: of the program.
        schema: JSON schema of an answer, for servers that keep to one.
        max_answer_tokens: of an answer.
        load: returns the program.
        read: returns what an answer to the input of this id says.
        fixed_tokens: tokens of a prompt besides instructions and input, at most, for estimates.
        unit: what one input is, in the plural.
        without_lm: the setting that needs no model.
        is_unsupported: whether an answer says things, and its text none of them: it answers another question.
        is_empty: whether an answer says nothing at all, where it is no good sign that all of them do.
        keeps_text: the ledger has what the model wrote; else the fields that were read in it, and nothing around them.
    """

    name: str
    program_hash: str
    instructions: str
    schema: JsonObject
    max_answer_tokens: int
    load: Callable[[], "dspy.Predict"]
    read: Callable[[str, "dspy.Prediction"], Found]
    fixed_tokens: int = 0
    unit: str = ""
    without_lm: str = ""
    is_unsupported: Callable[[Found], bool] = lambda _: False
    is_empty: Callable[[Found], bool] = lambda _: False
    keeps_text: bool = True

    @property
    def lists(self) -> set[str]:
        """The fields of an answer that are lists."""
        properties = self.schema["properties"]
        assert isinstance(properties, Mapping)
        return {n for n, form in properties.items() if isinstance(form, Mapping) and form["type"] == "array"}

    def settings(self, settings: LmSettings) -> LmSettings:
        """Returns the settings with tokens enough for an answer."""
        return replace(settings, max_tokens=max(settings.max_tokens, self.max_answer_tokens))


class LmEngine:
    """DSPy's engine for one input of a program: one request, answered from the ledger or paid.

    Args:
        calls: of the model.
        program: what reads the answer.
        key: of the answer.
        ids: two ids that the ledger names the answer by, so that a delete finds it.
        highest: the most that the call can cost.

    Attributes:
        answer: to the request, None before it was made.
        paid: whether the server was called for it.
    """

    def __init__(self, calls: PaidCalls, program: LmProgram[Any], key: str, ids: tuple[str, str], highest: float):
        self._calls, self._program, self._key, self._ids, self._highest = calls, program, key, ids, highest
        self.answer: LmAnswer | None = None
        self.paid = False

    def predict(self, inputs: Mapping[str, str]) -> "dspy.Prediction":
        """Returns the program's answer to its inputs.

        Raises:
            LmUnavailable: the server gave none, or the budget does not cover one.
            PalimpsestError: it takes no call with this key, or a local model cannot be loaded.
            ValueError: the answer has no end; `answer` is set then.
            Exception: DSPy cannot parse it; `answer` is set then.
        """
        dspy = import_with_json_schema("dspy")

        settings, program = self._calls.settings, self._program.load()
        lm, adapter = _dspy_lm(settings, self), answer_adapter(settings.answer_format)
        kept = ""
        try:
            with dspy.context(lm=lm, adapter=adapter, disable_history=True, track_usage=False):
                predicted = program(**inputs)
            if self.answer is not None and is_cut(self.answer.said, self._program.lists):
                raise ValueError("the answer has no end")  # DSPy completes JSON that was cut, with less than was said
            if not self._program.keeps_text:
                kept = adapter.format_assistant_message_content(program.signature, dict(predicted.items()))
        except Exception as e:
            if cause := failed_call(e):
                raise cause from None
            raise
        finally:
            if self.paid and not self._program.keeps_text and self.answer is not None:
                self._calls.put(self._key, self._ids, self._program.program_hash, replace(self.answer, text=kept))
        return predicted

    def complete(self, request: "lm15.Request") -> "lm15.Response":
        """Returns the answer as DSPy's response; a request that DSPy repeats is not made again.

        Raises:
            LmUnavailable: the server gave none, or the budget does not cover one.
        """
        if self.answer is None:
            program = self._program
            form = response_format(self._calls.settings.answer_format, program.name, program.schema)
            self.answer, self.paid = self._calls.complete(
                self._key,
                self._ids,
                program.program_hash,
                _chat_messages(request),
                self._highest,
                form,
                program.keeps_text,
            )
        return _response(request, self.answer)


class OptimizerEngine:
    """DSPy's engine for every call of an optimizer: each is in the ledger by its request, and within a budget.

    Attributes:
        paid: its calls.
        is_spent: whether the budget did not cover a call.
    """

    def __init__(self, settings: LmSettings, ledger: Ledger, budget: Budget):
        self.paid = PaidCalls(LmClient(settings), ledger, budget)
        self.is_spent = False

    def lm(self) -> "dspy.LM":
        """Returns the model as DSPy's optimizers want it."""
        return _dspy_lm(self.paid.settings, self)

    def complete(self, request: "lm15.Request") -> "lm15.Response":
        """Returns the answer as DSPy's response.

        Raises:
            LmUnavailable: the server gave none.
            BudgetSpent: the budget does not cover the call.
        """
        messages = _chat_messages(request)
        parts = [part for m in messages for part in (m.role, m.content)]
        settings = self.paid.settings
        key = content_id("optimizer", *settings.key_parts, *parts)
        try:
            answer, _ = self.paid.complete(key, ("", ""), "optimizer", messages, highest_cost(settings, parts))
        except BudgetSpent:
            self.is_spent = True
            raise
        return _response(request, answer)


def _dspy_lm(settings: LmSettings, engine: object) -> "dspy.LM":
    dspy = import_with_json_schema("dspy")

    return dspy.LM(_MODEL, engine=engine, cache=False, num_retries=0, temperature=0.0, max_tokens=settings.max_tokens)


def _response(request: "lm15.Request", answer: LmAnswer) -> "lm15.Response":
    from dspy import lm15

    return lm15.Response(
        id=None,
        model=request.model,
        message=lm15.Message.assistant(answer.said or " "),
        finish_reason="stop",
        usage=lm15.Usage(input_tokens=answer.tokens_in, output_tokens=answer.tokens_out),
    )


_MODEL = "openai/model"  # DSPy's names for models of providers change what it sends; the client sends the true one
_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]")


def is_cut(answer: str, lists: Container[str]) -> bool:
    """Returns whether an answer in JSON, or one of its fields that are lists, ends before its last bracket."""
    before, *fields = _FIELD.split(answer)
    values = [before, *(value for name, value in zip(fields[::2], fields[1::2], strict=True) if name in lists)]
    return any(_has_no_end(v.strip().removeprefix("```json").removeprefix("```").lstrip()) for v in values)


def _has_no_end(value: str) -> bool:
    if value[:1] not in ("[", "{") or sum(map(value.count, "[{")) <= sum(map(value.count, "]}")):
        return False
    try:
        json.JSONDecoder().raw_decode(value)
    except ValueError:
        return True
    return False


def _chat_messages(request: "lm15.Request") -> list[ChatMessage]:
    system = request.system if isinstance(request.system, str) else _text(request.system or ())
    messages = [ChatMessage("system", system)] if system else []
    return messages + [ChatMessage(_role(m.role), _text(m.parts)) for m in request.messages]


def _role(role: str) -> Literal["system", "user", "assistant"]:
    known: dict[str, Literal["user", "assistant"]] = {"user": "user", "assistant": "assistant"}
    return known.get(role, "system")  # DSPy's `developer`


def _text(parts: "tuple[lm15.PromptPart, ...] | tuple[lm15.Part, ...]") -> str:
    return "".join(part.text for part in parts if hasattr(part, "text"))


_MAX_CAUSES = 10


def failed_call(error: BaseException | None) -> LmUnavailable | PalimpsestError | None:
    """Returns why a call failed, from a chain of exceptions: DSPy wraps what its engine raises."""
    for _ in range(_MAX_CAUSES):
        if error is None or isinstance(error, LmUnavailable | PalimpsestError):
            return error
        error = error.__cause__ or error.__context__
    return None


# Texts that address a model are not shown to one; what an answer quotes must be in its text.

CONTAINS_INSTRUCTIONS = "the text gives orders"
"""Why a pair was not shown to the model."""
_INSTRUCTIONS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instruction|prompt|rule|above|previous|system)|"
    r"\b(?:answer|output|respond|reply|label|return|say|classify)\b.{0,40}\b(?:UPDATE|EXTEND|DERIVE|NONE)\b|"
    r"\bUPDATE\b.{0,30}\bconfidence\b|^[^\S\n]*+(?:system|assistant)\s*+:|\[\[ ## |</?(?:system|instructions?)>",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)


def contains_instructions(text: str) -> bool:
    """Returns whether a text addresses the labeler: such a pair is not shown to a model."""
    return _INSTRUCTIONS.search(text) is not None


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """Returns the span of a quote in a text, ignoring spaces, case and outer marks; None where it is not there."""
    folded, places = _fold(text)
    for marks in ("\"'`“”‘’ ", "\"'`“”‘’.… "):  # noqa: RUF001
        wanted = _fold(quote.strip().strip(marks).strip())[0]
        at = folded.find(wanted) if wanted else -1
        if at >= 0:
            return places[at], places[at + len(wanted) - 1] + 1
    return None


def _fold(text: str) -> tuple[str, list[int]]:
    """Returns a text without case and with single spaces, and the place in the text of each of its characters."""
    places = [i for i, c in enumerate(text) if not (c.isspace() and text[i - 1 : i].isspace())]
    return "".join(" " if text[i].isspace() else _fold_character(text[i]) for i in places), places


def _fold_character(character: str) -> str:
    return next((c for c in (character.casefold(), character.lower()) if len(c) == 1), character)
