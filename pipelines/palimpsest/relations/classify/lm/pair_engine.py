"""DSPy's engine for one pair: answers from the ledger where it has them, else from the server."""

from typing import TYPE_CHECKING, Literal

from palimpsest.relations.classify.label_types import LabelPair
from palimpsest.relations.classify.lm.ledger import Ledger, LmAnswer
from palimpsest.relations.classify.lm.lm_client import ChatMessage, LmClient
from palimpsest.relations.classify.lm.lm_settings import response_format

if TYPE_CHECKING:
    from dspy import lm15


class PairEngine:
    """Completes the requests about one pair.

    Attributes:
        answer: the last answer, None before the first.
        paid: whether the server was called for it.
    """

    def __init__(self, client: LmClient, ledger: Ledger, key: str, pair: LabelPair, program: str):
        self._client, self._ledger = client, ledger
        self._key, self._ids, self._program = key, (pair.newer_id, pair.older_id), program
        self.answer: LmAnswer | None = None
        self.paid = False

    def complete(self, request: "lm15.Request") -> "lm15.Response":
        """Returns the answer as DSPy's response.

        Raises:
            LmUnavailable: the server gave none.
        """
        from dspy import lm15

        answer = self._ledger.claim(self._key, *self._ids)
        if answer is None:
            try:
                form = response_format(self._client.settings.answer_format)
                answer = self._client.complete(_chat_messages(request), form)
            except BaseException:
                self._ledger.release(self._key)
                raise
            self._ledger.put(self._key, *self._ids, self._program, self._client.settings.model, answer)
            self.paid = True
        self.answer = answer
        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant(answer.text or " "),
            finish_reason="stop",
            usage=lm15.Usage(input_tokens=answer.tokens_in, output_tokens=answer.tokens_out),
        )


def _chat_messages(request: "lm15.Request") -> list[ChatMessage]:
    system = request.system if isinstance(request.system, str) else _text(request.system or ())
    messages = [ChatMessage("system", system)] if system else []
    return messages + [ChatMessage(_role(m.role), _text(m.parts)) for m in request.messages]


def _role(role: str) -> Literal["system", "user", "assistant"]:
    known: dict[str, Literal["user", "assistant"]] = {"user": "user", "assistant": "assistant"}
    return known.get(role, "system")  # DSPy's `developer`


def _text(parts: "tuple[lm15.PromptPart, ...] | tuple[lm15.Part, ...]") -> str:
    return "".join(part.text for part in parts if hasattr(part, "text"))
