"""Runs a DSPy program over texts of a build: in threads, within a budget, with every answer in the ledger."""

import math
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from palimpsest.core.errors import ComponentFailed, PalimpsestError
from palimpsest.core.files import progress, say
from palimpsest.core.ids import JsonObject, content_id
from palimpsest.core.imports import import_with_json_schema
from palimpsest.lm.client import (
    BudgetSpent,
    Ledger,
    LmAnswer,
    LmClient,
    LmUnavailable,
    PaidCalls,
    RequestRefused,
    ServerDown,
)
from palimpsest.lm.engine import CONTAINS_INSTRUCTIONS, Found, LmEngine, LmProgram, contains_instructions, find_quote
from palimpsest.lm.settings import Budget, LmSettings, as_budget, highest_cost
from palimpsest.text.words import content_words, stem_words

if TYPE_CHECKING:
    import dspy


UNREADABLE, UNSUPPORTED = "unreadable", "nothing of the answer is in the text"
OUT_OF_TOKENS = "it ran out of tokens, reasoning included; raise PALIMPSEST_LM_MAX_TOKENS"
"""Why an answer does not count; `CONTAINS_INSTRUCTIONS` and those of `LmUnavailable` are why there is none."""
SILENT = "every answer is empty"
_ANSWERED_LATER = (OUT_OF_TOKENS, *(e.reason for e in (LmUnavailable, RequestRefused, BudgetSpent, ServerDown)))
MAX_UNREADABLE_SHARE = 0.5
"""Of the answers that a step has; of more, the server is taken to be broken."""
_MIN_SILENT = 3  # answers: of fewer texts it may be right that nothing is in any

UNREAD = "unread: "
"""Before the reason, in the figures of a stage."""


@dataclass(frozen=True)
class ProgramInput:
    """What a program reads at once.

    Attributes:
        input_id: unique among the inputs of a run.
        fields: the input fields of the program, in an order that never changes: the key of the answer depends on it.
        texts: what is checked for instructions to a model.
        related_ids: other ids that the ledger names the answer by, so that a delete finds it.
    """

    input_id: str
    fields: Mapping[str, str]
    texts: tuple[str, ...]
    related_ids: tuple[str, ...] = ()

    @property
    def contains_instructions(self) -> bool:
        """Whether a text addresses a model; such an input is not shown to one."""
        return any(contains_instructions(text) for text in self.texts)


def program(
    name: str,
    instructions: str,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    items: Mapping[str, Any] | None = None,
) -> "dspy.Predict":
    """Returns a DSPy program of one call.

    Args:
        name: of its signature.
        instructions: of the program.
        inputs: what each input field, a text, contains.
        outputs: the form of each output field, a list.
        items: types of the items of these lists, where they are narrower than an object.
    """
    dspy = import_with_json_schema("dspy")

    types = dict.fromkeys(outputs, dict[str, Any]) | dict(items or {})
    fields = {n: (str, dspy.InputField(desc=d)) for n, d in inputs.items()}
    lists = {n: (list[types[n]], dspy.OutputField(desc=d)) for n, d in outputs.items()}  # type: ignore[valid-type]
    return dspy.Predict(dspy.make_signature({**fields, **lists}, instructions, name))


@dataclass
class ProgramRun(Generic[Found]):
    """What was found by input id, what was paid, and which inputs have no answer.

    Attributes:
        found: of each input that has an answer.
        paid: answers of calls made now.
        open: why an input has no answer; a later build reads it unless its answer was read.
        is_silent: every answer is empty, and there are several.
    """

    found: dict[str, Found] = field(default_factory=dict)
    paid: dict[str, LmAnswer] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    is_silent: bool = False

    @property
    def calls(self) -> int:
        """How many calls were made now."""
        return len(self.paid)

    @property
    def tokens(self) -> int:
        """Of calls made now, read and written."""
        return sum(a.tokens_in + a.tokens_out for a in self.paid.values())

    @property
    def cost(self) -> float:
        """Of calls made now."""
        return sum(a.cost for _, a in sorted(self.paid.items()))

    @property
    def without_answer(self) -> Counter[str]:
        """How many inputs have no answer, by reason."""
        return Counter(self.open.values())

    @property
    def unpaid(self) -> int:
        """How many inputs a later build may get an answer for."""
        return sum(self.without_answer[reason] for reason in _ANSWERED_LATER)

    def numbers(self) -> dict[str, float]:
        """Returns the figures of a stage: what was paid, and by reason which inputs have no answer."""
        paid = {"lm_calls": self.calls, "tokens": self.tokens, "cost": self.cost, "unpaid": self.unpaid}
        silent = {f"{UNREAD}{SILENT}": len(self.found)} if self.is_silent else {}
        return paid | silent | {f"{UNREAD}{reason}": n for reason, n in sorted(self.without_answer.items())}


class ProgramRunner(Generic[Found]):
    """A program over a server. An answer is a function of the input, the program and the model."""

    def __init__(
        self,
        program: LmProgram[Found],
        settings: LmSettings,
        ledger: Ledger,
        max_cost: float | Budget | None = None,
        client: LmClient | None = None,
    ):
        """Makes a runner; its first call connects to the server.

        Args:
            program: what it runs.
            settings: the model.
            ledger: where answers are stored.
            max_cost: the most that it may spend, or a budget that it shares; None means no limit.
            client: one that it shares, with the settings of the program.

        Raises:
            PalimpsestError: a budget is set, and no price.
        """
        budget = as_budget(max_cost)
        budget.check_price(settings)
        self._settings = program.settings(settings)
        self._calls = PaidCalls(client or LmClient(self._settings), ledger, budget)
        self._program, self._ledger = program, ledger
        self._lock = threading.Lock()

    def key(self, item: ProgramInput) -> str:
        """Returns the key of the answer in the ledger; another one where that was cut, and may be longer now."""
        key = content_id(self._program.program_hash, *self._settings.key_parts, item.input_id, *item.fields.values())
        known, most = self._ledger.get(key), self._settings.max_tokens
        return content_id(key, str(most)) if known and known.is_cut and known.tokens_out < most else key

    def estimate(self, items: Sequence[ProgramInput]) -> tuple[int, float]:
        """Returns (calls, cost): how many inputs have no answer in the ledger, and the most that these can cost."""
        todo = [i for i in items if not i.contains_instructions and self._ledger.get(self.key(i)) is None]
        return len(todo), sum(self._highest_cost(i) for i in todo)

    def run(self, items: Sequence[ProgramInput], *, checked: bool = True) -> ProgramRun[Found]:
        """Returns what the program finds in the inputs.

        Args:
            items: the inputs, each once.
            checked: False where the caller counts unreadable answers itself, over more than these inputs.

        Raises:
            ComponentFailed: more than half of the answers cannot be read; they are removed from the ledger.
            PalimpsestError: the server takes no call with this key, or a local model cannot be loaded.
        """
        out = ProgramRun[Found]()
        if not items:
            return out
        name, unit = self._program.name, self._program.unit
        calls, cost = self.estimate(items)
        if calls:
            budget = self._calls.budget
            limit = "" if budget.limit is None else f" of {budget.limit:.4f} allowed"
            known = len(items) - calls
            say(f"{name}: {calls} calls to {self._settings.model}, {known} known; at most {cost:.4f}{limit}")
        if unanswered := self._ledger.totals().unanswered:
            say(f"{name}: {unanswered} calls were in progress when a build was killed, and may have been billed")
        with progress(name, len(items), unit) as advance:

            def run_one(item: ProgramInput) -> None:
                answer, found, reason = self._run_one(item)
                with self._lock:
                    advance(1)
                    if answer is not None:
                        out.paid[item.input_id] = answer
                    if reason:
                        out.open[item.input_id] = reason
                    if found is not None:
                        out.found[item.input_id] = found

            with ThreadPoolExecutor(self._settings.concurrency) as pool:
                list(pool.map(run_one, items))
        self._check(items, out, checked)
        return out

    def _check(self, items: Sequence[ProgramInput], out: ProgramRun[Found], checked: bool) -> None:
        """Notes where every answer is empty, and checks that not most of them cannot be read.

        Raises:
            ComponentFailed: most cannot be read; their calls are made again.
        """
        answers = out.found.values()
        out.is_silent = len(answers) >= _MIN_SILENT and all(self._program.is_empty(found) for found in answers)
        unreadable = [item for item in items if out.open.get(item.input_id) in (UNREADABLE, OUT_OF_TOKENS)]
        if checked and len(unreadable) > MAX_UNREADABLE_SHARE * (len(unreadable) + len(answers)):
            self._ledger.drop(_ledger_ids(item) for item in unreadable)
            cut, most = out.without_answer[OUT_OF_TOKENS], self._settings.max_tokens
            why = f" ({cut} ran out of tokens; set PALIMPSEST_LM_MAX_TOKENS, it was {most})" if cut else ""
            raise ComponentFailed(
                f"{self._program.name}: {len(unreadable)} answers of the model in PALIMPSEST_LM cannot be read, most of"
                f" them{why}; nothing was published; check the server and run again, or set"
                f" `{self._program.without_lm}` in collection.yaml"
            )

    def _run_one(self, item: ProgramInput) -> tuple[LmAnswer | None, Found | None, str]:
        """Returns the answer where it was paid now, what it says, and why nothing was read."""
        if item.contains_instructions:
            return None, None, CONTAINS_INSTRUCTIONS
        try:
            found, engine = self.ask(item)
        except LmUnavailable as e:
            return None, None, e.reason
        paid = engine.answer if engine.paid else None
        if found is None:
            return paid, None, OUT_OF_TOKENS if engine.answer is not None and engine.answer.is_cut else UNREADABLE
        return paid, found, UNSUPPORTED if self._program.is_unsupported(found) else ""

    def ask(self, item: ProgramInput) -> tuple[Found | None, LmEngine]:
        """Returns what the program finds in one input, None where its answer cannot be read, and what has the answer.

        Raises:
            LmUnavailable: the server gave no answer, or the budget does not cover one.
            PalimpsestError: it takes no call with this key, or a local model cannot be loaded.
        """
        key, highest = self.key(item), self._highest_cost(item)
        engine = LmEngine(self._calls, self._program, key, _ledger_ids(item), highest)
        return self._predict(engine, item), engine

    def _predict(self, engine: LmEngine, item: ProgramInput) -> Found | None:
        try:
            answer = engine.predict(item.fields)
        except (LmUnavailable, PalimpsestError):
            raise
        except Exception as e:
            if engine.answer is not None:
                return None
            raise LmUnavailable(type(e).__name__) from None
        try:
            return self._program.read(item.input_id, answer)
        except (ValueError, TypeError, LookupError, RecursionError):  # a form that no program expects
            return None

    def _highest_cost(self, item: ProgramInput) -> float:
        texts = (self._program.instructions, *item.fields.values())
        return highest_cost(self._settings, texts, self._program.fixed_tokens)


def _ledger_ids(item: ProgramInput) -> tuple[str, str]:
    return item.input_id, " ".join(item.related_ids) or item.input_id


# What programs share that ask a model for lists of objects: the schema of an answer, and how its parts are checked.


def object_schema(properties: JsonObject) -> JsonObject:
    """Returns the JSON schema of an object that has these fields and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def list_schema(fields: JsonObject) -> JsonObject:
    """Returns the JSON schema of a list of objects."""
    return {"type": "array", "items": object_schema(fields)}


def stemmed_words(text: str) -> set[str]:
    """Returns the stems of the words of a text that carry meaning."""
    return set(stem_words(content_words(text)))


def numbers_in(text: str) -> set[str]:
    """Returns the runs of digits of a text."""
    return set(re.findall(r"\d+", text))


_FIRST_PERSON = frozenset(["i", "me", "my", "mine", "we", "us", "our", "ours"])
_THIRD_PERSON = frozenset(["he", "she", "they", "him", "her", "them", "his", "their"])
_FORMS = tuple(
    frozenset(forms.split())
    for forms in ("am m is s are re", "have ve has", "do does", "don doesn", "was were", "ll will")
)
_WORD = re.compile(r"[^\W_]+")


def find_quote_by(speaker: str, text: str, quote: str) -> tuple[int, int] | None:
    """Returns the span of a quote in a text, as `find_quote` does, also where the quote names the speaker.

    Small models copy `I moved our queue` as `Ann moved her queue`. Every word of such a quote is in the text, in the
    same order: for the first person the speaker's name, or a pronoun, and a verb may agree with it. A sentence without
    a subject (`Moved it.`) may be quoted with the speaker's name.
    """
    if (span := find_quote(text, quote)) is not None or not speaker:
        return span
    named = re.sub(rf"\b{re.escape(speaker)}\b(?:['’]s\b)?", "I", quote, flags=re.IGNORECASE)  # noqa: RUF001
    wanted = _WORD.findall(named.casefold())
    words = list(_WORD.finditer(text))
    for start in range(len(words)):
        is_first = text[: words[start].start()].rstrip()[-1:] in ("", ".", "!", "?")
        for part in (wanted, wanted[1:] if is_first and wanted[:1] == ["i"] else []):
            run = words[start : start + len(part)]
            if run and len(run) == len(part) and all(map(_is_same_word, run, part)):
                return run[0].start(), run[-1].end()
    return None


def _is_same_word(found: re.Match[str], quoted: str) -> bool:
    said = found[0].casefold()
    if said in _FIRST_PERSON:
        return quoted in _FIRST_PERSON | _THIRD_PERSON
    is_verb = quoted in (said + "s", said + "es", said[:-1] + "ies")
    return said == quoted or is_verb or any({said, quoted} <= forms for forms in _FORMS)


def stated_confidence(value: object, highest: float) -> float:
    """Returns the confidence that a model states, from 0 to `highest`; `highest` where it states none."""
    try:
        stated = float(str(value))
    except ValueError:
        return highest
    return round(min(highest, max(0.0, stated)), 3) if math.isfinite(stated) else highest
