"""The LM labeler: each pair labelled once, in threads, within a budget; pairs without an answer stay open."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.core.json_types import JsonObject, JsonValue
from palimpsest.core.progress import progress, say
from palimpsest.relations.classify.label_types import UNPAID, LabelPair, LabelResult
from palimpsest.relations.classify.lm.ledger import Ledger
from palimpsest.relations.classify.lm.lm_client import LmClient, LmUnavailable
from palimpsest.relations.classify.lm.lm_settings import Budget, LmSettings, answer_adapter, highest_cost
from palimpsest.relations.classify.lm.pair_engine import PairEngine
from palimpsest.relations.classify.lm.read_answer import (
    CONTAINS_INSTRUCTIONS,
    contains_instructions,
    read_answer,
    unreadable,
)
from palimpsest.relations.classify.lm.relation_program import (
    INSTRUCTIONS,
    load_program,
    pair_inputs,
    program_hash,
    saved_program,
)

if TYPE_CHECKING:
    import dspy

_MAX_CONSECUTIVE_FAILURES = 8  # then the server is down, and the remaining pairs are not tried
_FIXED_TOKENS = 900
_MAX_CAUSES = 10


class LmLabeler:
    """A DSPy program over a server. A label is a function of the pair, the program and the model."""

    name = "dspy"
    reads_together = False

    def __init__(
        self,
        settings: LmSettings,
        ledger: Ledger,
        max_cost: float | None = None,
        state: JsonObject | None = None,
        instructions: str = INSTRUCTIONS,
    ):
        """Makes a labeler.

        Args:
            settings: the model.
            ledger: where answers are stored.
            max_cost: the most that this labeler may spend; None means no limit.
            state: a compiled program; None means the accepted one, or the instructions as they are.
            instructions: of the program, where nothing was compiled.

        Raises:
            PalimpsestError: a budget is set, and no price.
        """
        if max_cost is not None and not (settings.price_in or settings.price_out):
            raise PalimpsestError("--max-cost: needs a price; set PALIMPSEST_LM_PRICE=IN,OUT for a million tokens")
        if state is None and instructions == INSTRUCTIONS and (saved := saved_program()):
            state = saved["state"]
        self._settings, self._ledger, self._budget = settings, ledger, Budget(max_cost)
        self._state, self._instructions = state, instructions
        self.program = program_hash(state, instructions)
        self.program_hash = content_id(self.program, *settings.key_parts)
        self._consecutive_failures = 0
        self._lock = threading.Lock()
        self._client: LmClient | None = None

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one result for each pair, in order. Equal pairs are labelled once."""
        if not pairs:
            return []
        client = self._client = self._client or LmClient(self._settings)
        predict = load_program(self._state, self._instructions)
        adapter = answer_adapter(self._settings.answer_format)
        keys = [self.key(pair) for pair in pairs]
        unique: dict[str, LabelPair] = {}
        for key, pair in zip(keys, pairs, strict=True):
            unique.setdefault(key, pair)
        self._log_plan(pairs, len(unique))
        results: dict[str, LabelResult] = {}
        with progress("ask", len(unique), "pairs") as advance:

            def label_one(key: str, pair: LabelPair) -> None:
                result = self._label_one(client, key, pair, predict, adapter)
                with self._lock:
                    results[key] = result
                    advance(1)

            with ThreadPoolExecutor(self._settings.concurrency) as pool:
                for future in [pool.submit(label_one, key, pair) for key, pair in unique.items()]:
                    future.result()
        _log_failures(list(results.values()))
        return _charge_once(keys, results)

    def key(self, pair: LabelPair) -> str:
        """Returns the key of the answer in the ledger: of the inputs, the program and the model."""
        inputs = json.dumps(pair_inputs(pair), sort_keys=True)
        return content_id(inputs, self.program_hash, pair.newer_id, pair.older_id)

    def estimate(self, pairs: list[LabelPair]) -> tuple[int, float]:
        """Returns (calls, cost): how many of the pairs are not in the ledger, and the most that they can cost."""
        todo = {key: pair for pair in pairs if self._ledger.get(key := self.key(pair)) is None}
        return len(todo), sum(self._max_call_cost(pair_inputs(pair)) for pair in todo.values())

    def _log_plan(self, pairs: list[LabelPair], unique: int) -> None:
        calls, max_cost = self.estimate(pairs)
        if calls:
            limit = "" if self._budget.limit is None else f" of {self._budget.limit:.4f} allowed"
            known = unique - calls
            say(f"labels: {calls} calls to {self._settings.model}, {known} known; at most {max_cost:.4f}{limit}")
        if unanswered := self._ledger.totals().unanswered:
            say(f"labels: {unanswered} calls were in progress when a build was killed, and may have been billed")

    def _label_one(
        self, client: LmClient, key: str, pair: LabelPair, predict: "dspy.Predict", adapter: "dspy.Adapter"
    ) -> LabelResult:
        if contains_instructions(pair.older) or contains_instructions(pair.newer):
            evidence: JsonObject = {"rule": "abstain", "why": CONTAINS_INSTRUCTIONS}
            return LabelResult("NONE", 0.0, evidence, labeler=self.name, decided=False)
        is_known = self._ledger.get(key) is not None
        reserved = 0.0 if is_known else self._max_call_cost(pair_inputs(pair))
        if not is_known and not self._budget.reserve(reserved):
            return _open_pair("budget")
        engine = PairEngine(client, self._ledger, key, pair, self.program)
        try:
            if not is_known and self._consecutive_failures >= _MAX_CONSECUTIVE_FAILURES:
                return _open_pair("no answer", error="server down")
            result = self._predict(engine, pair, predict, adapter)
        except LmUnavailable as e:
            self._consecutive_failures += 1
            return _open_pair("no answer", error=str(e))
        finally:
            self._budget.settle(reserved, engine.answer.cost if engine.paid and engine.answer is not None else 0.0)
        self._consecutive_failures = 0
        if not engine.paid or engine.answer is None:
            return result
        answer = engine.answer
        return replace(result, lm_calls=1, tokens=answer.tokens_in + answer.tokens_out, cost=answer.cost)

    def _predict(
        self, engine: PairEngine, pair: LabelPair, predict: "dspy.Predict", adapter: "dspy.Adapter"
    ) -> LabelResult:
        """Returns the result of the model's answer, an abstention where DSPy cannot parse it.

        Raises:
            LmUnavailable: there is no answer.
        """
        import dspy

        lm = dspy.LM(
            f"openai/{self._settings.model}",
            engine=engine,
            cache=False,
            num_retries=0,
            temperature=0.0,
            max_tokens=self._settings.max_tokens,
        )
        try:
            with dspy.context(lm=lm, adapter=adapter, disable_history=True, track_usage=False):
                return read_answer(pair, predict(**pair_inputs(pair)))
        except Exception as e:
            if cause := _unavailable_cause(e):
                raise cause from None
            if engine.answer is None:
                raise
            return unreadable("parse")

    def _max_call_cost(self, inputs: dict[str, str]) -> float:
        characters = len(self._instructions) + sum(len(text) for text in inputs.values())
        return highest_cost(self._settings, characters, _FIXED_TOKENS)


def _open_pair(why: str, **more: JsonValue) -> LabelResult:
    """Returns the result for a pair without an answer: it retires nothing, and the next build tries it again."""
    return LabelResult("NONE", 0.0, {"rule": UNPAID, "why": why, **more}, labeler=LmLabeler.name, decided=False)


def _charge_once(keys: list[str], results: dict[str, LabelResult]) -> list[LabelResult]:
    """Returns the result of each key; a repeated key has no calls and no cost."""
    out, charged = [], set()
    for key in keys:
        result = results[key]
        out.append(
            replace(result, lm_calls=0, tokens=0, cost=0.0, labeler=LmLabeler.name) if key in charged else result
        )
        charged.add(key)
    return out


def _log_failures(results: list[LabelResult]) -> None:
    failed = [r for r in results if r.evidence.get("why") == "no answer"]
    if failed:
        why = failed[0].evidence.get("error", "")
        say(f"labels: {len(failed)} pairs without an answer ({why}); the next build labels them")


def _unavailable_cause(error: BaseException | None) -> LmUnavailable | None:
    """Returns the LmUnavailable in a chain of exceptions: DSPy wraps what its engine raises."""
    for _ in range(_MAX_CAUSES):
        if error is None or isinstance(error, LmUnavailable):
            return error
        error = error.__cause__ or error.__context__
    return None
