"""One request of a DSPy program: answered from the ledger, else by the server; and what guards texts and answers."""

import json
import re
import threading
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import JsonObject, content_id
from palimpsest.lm.client import BudgetSpent, ChatMessage, Ledger, LmAnswer, LmClient, LmUnavailable
from palimpsest.lm.settings import Budget, LmSettings, answer_adapter, highest_cost, response_format

if TYPE_CHECKING:
    import dspy
    from dspy import lm15


class LmEngine:
    """DSPy's engine for one input of a program: answers from the ledger where it has them, else from the server.

    Args:
        client: the server.
        ledger: of the answers.
        key: of the answer.
        ids: two ids that the ledger names the answer by, so that a delete finds it.
        program_hash: stored with the answer.
        name: of the program, for servers that keep to a schema.
        schema: JSON schema of the answer.
        keeps_text: the ledger has what the model wrote; else the fields that were read in it, and nothing around them.

    Attributes:
        answer: the last answer, None before the first.
        paid: whether the server was called for it.
    """

    def __init__(
        self,
        client: LmClient,
        ledger: Ledger,
        key: str,
        ids: tuple[str, str],
        program_hash: str,
        name: str,
        schema: JsonObject,
        keeps_text: bool = True,
    ):
        self._client, self._ledger, self._keeps_text = client, ledger, keeps_text
        self._key, self._ids, self._program = key, ids, program_hash
        self._format = response_format(client.settings.answer_format, name, schema)
        properties = schema["properties"]
        assert isinstance(properties, Mapping)
        self._lists = {n for n, form in properties.items() if isinstance(form, Mapping) and form["type"] == "array"}
        self.answer: LmAnswer | None = None
        self.paid = False

    def predict(self, program: "dspy.Predict", inputs: Mapping[str, str]) -> "dspy.Prediction":
        """Returns the program's answer to its inputs.

        Raises:
            LmUnavailable: the server gave none.
            PalimpsestError: it takes no call with this key, or a local model cannot be loaded.
            ValueError: the answer has no end; `answer` is set then.
            Exception: DSPy cannot parse it; `answer` is set then.
        """
        import dspy

        settings = self._client.settings
        lm, adapter = _dspy_lm(settings, self), answer_adapter(settings.answer_format)
        kept = ""
        try:
            with dspy.context(lm=lm, adapter=adapter, disable_history=True, track_usage=False):
                predicted = program(**inputs)
            if self.answer is not None and is_cut(self.answer.said, self._lists):
                raise ValueError("the answer has no end")  # DSPy completes JSON that was cut, with less than was said
            if not self._keeps_text:
                kept = adapter.format_assistant_message_content(program.signature, dict(predicted.items()))
        except Exception as e:
            if cause := failed_call(e):
                raise cause from None
            raise
        finally:
            if self.paid and not self._keeps_text and self.answer is not None:
                self._put(replace(self.answer, text=kept))
        return predicted

    def complete(self, request: "lm15.Request") -> "lm15.Response":
        """Returns the answer as DSPy's response.

        Raises:
            LmUnavailable: the server gave none.
        """
        answer = self._ledger.claim(self._key, *self._ids)
        if answer is None:
            try:
                answer = self._client.complete(_chat_messages(request), self._format)
            except BaseException:
                self._ledger.release(self._key)
                raise
            if self._keeps_text:
                self._put(answer)
            self.paid = True
        self.answer = answer
        return _response(request, answer)

    def _put(self, answer: LmAnswer) -> None:
        self._ledger.put(self._key, *self._ids, self._program, self._client.settings.model, answer)


class OptimizerEngine:
    """DSPy's engine for every call of an optimizer: each is in the ledger by its request, and within a budget.

    Attributes:
        calls, is_spent: made now, and whether the budget did not cover one.
    """

    def __init__(self, settings: LmSettings, ledger: Ledger, budget: Budget):
        self._settings, self._ledger, self._budget = settings, ledger, budget
        self._client, self._lock = LmClient(settings), threading.Lock()
        self.calls, self.is_spent = 0, False

    def lm(self) -> "dspy.LM":
        """Returns the model as DSPy's optimizers want it."""
        return _dspy_lm(self._settings, self)

    def complete(self, request: "lm15.Request") -> "lm15.Response":
        """Returns the answer as DSPy's response.

        Raises:
            LmUnavailable: the server gave none, or the budget does not cover the call.
        """
        messages = _chat_messages(request)
        parts = [part for m in messages for part in (m.role, m.content)]
        key = content_id("optimizer", *self._settings.key_parts, *parts)
        answer = self._ledger.claim(key, "", "")
        if answer is None:
            try:
                answer = self._pay(messages, highest_cost(self._settings, parts))
            except BaseException:
                self._ledger.release(key)
                raise
            self._ledger.put(key, "", "", "optimizer", self._settings.model, answer)
        return _response(request, answer)

    def _pay(self, messages: Sequence[ChatMessage], reserved: float) -> LmAnswer:
        if not self._budget.reserve(reserved):
            self.is_spent = True
            raise BudgetSpent
        spent = 0.0
        try:
            answer = self._client.complete(messages)
            spent = answer.cost
        finally:
            self._budget.settle(reserved, spent)
        with self._lock:
            self.calls += 1
        return answer


def _dspy_lm(settings: LmSettings, engine: object) -> "dspy.LM":
    import dspy

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
