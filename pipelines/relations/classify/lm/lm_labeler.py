"""The LM labeler: each pair asked once, in threads, under a budget; what cannot be asked abstains and stays open."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from palimpsest.core.errors import PalimpsestError
from palimpsest.core.ids import content_id
from palimpsest.core.progress import progress, say
from palimpsest.relations.classify.label_types import UNPAID, LabelPair, LabelResult
from palimpsest.relations.classify.lm.ledger import Ledger
from palimpsest.relations.classify.lm.lm_client import LmClient, LmUnavailable, PairEngine, log_failures
from palimpsest.relations.classify.lm.lm_settings import LmSettings
from palimpsest.relations.classify.lm.read_answer import GIVES_ORDERS, failed, gives_orders, read_answer
from palimpsest.relations.classify.lm.relation_program import (
    INSTRUCTIONS,
    load_program,
    pair_inputs,
    program_hash,
    saved_program,
)

_BROKEN = 8  # pairs in a row without an answer: the server is down, the rest is not tried
_CHARACTERS_A_TOKEN = 3  # at least: what a question may cost is told before it is asked
_FIXED_TOKENS = 900


class LmLabeler:
    """A DSPy program over a server. A label is a function of the pair, the program and the model."""

    name = "dspy"

    def __init__(
        self,
        settings: LmSettings,
        ledger: Ledger,
        max_cost: float | None = None,
        state: dict[str, Any] | None = None,
        instructions: str = INSTRUCTIONS,
    ):
        """Makes a labeler.

        Args:
            settings: the model.
            ledger: where answers are kept.
            max_cost: money that may be spent by this labeler; None means no limit.
            state: a compiled program; None means the accepted one, or the instructions as they are.
            instructions: what to ask with, where nothing was compiled.

        Raises:
            PalimpsestError: a budget is set, and no price.
        """
        if max_cost is not None and not (settings.price_in or settings.price_out):
            raise PalimpsestError("--max-cost: needs a price; set PALIMPSEST_LM_PRICE=IN,OUT for a million tokens")
        if state is None and instructions == INSTRUCTIONS and (saved := saved_program()):
            state = saved["state"]
        self._settings, self._ledger, self._max_cost = settings, ledger, max_cost
        self._state, self._instructions = state, instructions
        self.program = program_hash(state, instructions)
        self.program_hash = content_id(self.program, settings.model)
        self.spent = 0.0
        self._reserved = 0.0
        self._down = 0
        self._lock = threading.Lock()
        self.client: LmClient | None = None

    def label(self, pairs: list[LabelPair]) -> list[LabelResult]:
        """Returns one answer for each pair, in order. Equal questions are asked once."""
        if not pairs:
            return []
        import dspy

        self.client = self.client or LmClient(self._settings)
        predict = load_program(self._state, self._instructions)
        adapter = dspy.ChatAdapter(use_json_adapter_fallback=False)
        first: dict[str, int] = {}
        for i, pair in enumerate(pairs):
            first.setdefault(self.key(pair), i)
        calls, most = self.estimate(pairs)
        if calls:
            limit = "" if self._max_cost is None else f" of {self._max_cost:.4f} allowed"
            known = len(first) - calls
            say(f"labels: {calls} calls to {self._settings.model}, {known} known; at most {most:.4f}{limit}")
        if unheard := int(self._ledger.totals()["unheard"]):
            say(f"labels: {unheard} calls were on their way when a build was killed, and may have been paid")
        answers: dict[str, LabelResult] = {}
        with progress("ask", len(first), "pairs") as advance:

            def one(key: str, pair: LabelPair) -> None:
                told = self._one(key, pair, predict, adapter)
                with self._lock:
                    answers[key] = told
                    advance(1)

            with ThreadPoolExecutor(self._settings.concurrency) as pool:
                for future in [pool.submit(one, key, pairs[i]) for key, i in first.items()]:
                    future.result()
        if open_ := [a for a in answers.values() if a.evidence.get("why") == "no answer"]:
            log_failures(len(open_), str(open_[0].evidence.get("error", "")))
        out, counted = [], set()
        for pair in pairs:
            key = self.key(pair)
            told = answers[key]
            again = key in counted
            counted.add(key)
            out.append(
                LabelResult(told.label, told.confidence, told.evidence, labeler=self.name, decided=told.decided)
                if again
                else told
            )
        return out

    def key(self, pair: LabelPair) -> str:
        """Returns the name under which the ledger keeps the answer: of the question, the program and the model."""
        return content_id(
            json.dumps(pair_inputs(pair), sort_keys=True), self.program_hash, pair.newer_id, pair.older_id
        )

    def _one(self, key: str, pair: LabelPair, predict: Any, adapter: Any) -> LabelResult:
        import dspy

        if gives_orders(pair.older) or gives_orders(pair.newer):
            evidence: dict[str, object] = {"rule": "abstain", "why": GIVES_ORDERS}
            return LabelResult("NONE", 0.0, evidence, labeler=self.name, decided=False)
        told_inputs = pair_inputs(pair)
        known = self._ledger.get(key) is not None
        reserved = 0.0 if known else self._reserve(told_inputs)
        if reserved is None:
            return _open("budget")
        engine = PairEngine(self.client, self._ledger, key, pair.newer_id, pair.older_id, self.program)  # type: ignore[arg-type]
        try:
            if not known and self._down >= _BROKEN:
                return _open("no answer", error="server down")
            lm = dspy.LM(
                f"openai/{self._settings.model}",
                engine=engine,
                cache=False,
                num_retries=0,
                temperature=0.0,
                max_tokens=self._settings.max_tokens,
            )
            with dspy.context(lm=lm, adapter=adapter, disable_history=True, track_usage=False):
                told = read_answer(pair, predict(**told_inputs))
        except Exception as e:
            cause = _cause(e, LmUnavailable)
            if cause is not None:
                self._down += 1
                return _open("no answer", error=str(cause))
            if engine.answer is None:
                raise
            told = failed(pair, "parse")
        finally:
            with self._lock:
                self._reserved -= reserved
                if engine.paid and engine.answer is not None:
                    self.spent += engine.answer.cost
        self._down = 0
        if not engine.paid or engine.answer is None:
            return told
        answer = engine.answer
        return LabelResult(
            told.label,
            told.confidence,
            told.evidence,
            lm_calls=1,
            tokens=answer.tokens_in + answer.tokens_out,
            cost=answer.cost,
            labeler=self.name,
            decided=told.decided,
        )

    def estimate(self, pairs: list[LabelPair]) -> tuple[int, float]:
        """Returns (calls, money): how many of the pairs are not in the ledger, and the most that they can cost."""
        todo = {k: p for p in pairs if self._ledger.get(k := self.key(p)) is None}
        return len(todo), sum(self._most(pair_inputs(p)) for p in todo.values())

    def _most(self, inputs: dict[str, str]) -> float:
        told = _FIXED_TOKENS + sum(len(v) for v in inputs.values()) // _CHARACTERS_A_TOKEN
        return self._settings.cost(told + len(self._instructions) // _CHARACTERS_A_TOKEN, self._settings.max_tokens)

    def _reserve(self, inputs: dict[str, str]) -> float | None:
        most = self._most(inputs)
        with self._lock:
            if self._max_cost is not None and self.spent + self._reserved + most > self._max_cost:
                return None
            self._reserved += most
        return most


def _open(why: str, **more: object) -> LabelResult:
    """Returns the answer for a pair that could not be asked now: it retires nothing, and is asked again."""
    return LabelResult("NONE", 0.0, {"rule": UNPAID, "why": why, **more}, labeler="dspy", decided=False)


def _cause(error: BaseException | None, kind: type[Exception]) -> BaseException | None:
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, kind):
            return error
        error, seen = error.__cause__ or error.__context__, seen + 1
    return None
