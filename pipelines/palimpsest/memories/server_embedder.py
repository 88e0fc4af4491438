"""Embeddings of an OpenAI-compatible server: batched, retried, and counted. Only the environment names the server.

A collection's settings name the model alone: a corpus by others must not choose where its texts are sent.
"""

import json
import math
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from palimpsest.core.errors import ComponentFailed, PalimpsestError, first_line_of
from palimpsest.memories.vector_space import Done, SpaceParts, unit_rows

URL, KEY, PRICE = "PALIMPSEST_EMBEDDER_URL", "PALIMPSEST_EMBEDDER_KEY", "PALIMPSEST_EMBEDDER_PRICE"
PREFIX = "openai:"
TEXTS_PER_CALL = 64
_ATTEMPTS = 6
_TIMEOUT_S = 60
_FIRST_WAIT_S = 0.5
_RETRIED = (408, 409, 429, 500, 502, 503, 504)


class _Retry(Exception):
    """A failure that may pass."""


@dataclass
class ServerUsage:
    """What calls of a server cost so far; money by the price of a million tokens."""

    calls: int = 0
    tokens: int = 0
    price: float = 0.0

    def numbers(self) -> dict[str, float]:
        """Returns the figures as a stage records them."""
        return {
            "embedder_calls": self.calls,
            "embedder_tokens": self.tokens,
            "embedder_cost": self.tokens * self.price / 1e6,
        }


@dataclass
class ServerEmbedder:
    """See BatchEmbedder and QuestionEmbedder.

    Attributes:
        model: its name, as the server knows it.
        url: of the server, up to and with `/v1`.
        key: sent with each request; never shown or written.
        dimensions: of its vectors; 0 where that is not known yet.
        usage: what was called so far.
    """

    model: str
    url: str
    key: str = field(repr=False)
    dimensions: int = 0
    usage: ServerUsage = field(default_factory=ServerUsage)

    def encode(self, texts: Sequence[str], done: Done | None = None) -> np.ndarray:
        """See BatchEmbedder.

        Raises:
            PalimpsestError: the server refuses the model or the key, or its vectors have another dimension.
            ComponentFailed: it does not answer, or answers with what are no vectors.
        """
        parts = []
        for start in range(0, len(texts), TEXTS_PER_CALL):
            rows = list(range(start, min(start + TEXTS_PER_CALL, len(texts))))
            parts.append(self._call([texts[i] for i in rows]))
            if done is not None:
                done(rows, parts[-1])
        return np.concatenate(parts) if parts else np.zeros((0, self.dimensions), np.float32)

    def embed(self, text: str) -> np.ndarray:
        """See QuestionEmbedder."""
        vector: np.ndarray = self._call([text])[0]
        return vector

    def _call(self, texts: list[str]) -> np.ndarray:
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

        body = json.dumps({"model": self.model, "input": texts, "encoding_format": "float"}).encode()
        retrying = Retrying(
            retry=retry_if_exception_type(_Retry),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_random_exponential(_FIRST_WAIT_S, max=20),
            reraise=True,
        )
        try:
            answer = retrying(self._post, body)
        except _Retry as e:
            raise ComponentFailed(f"embedder {self.model} at {self.url}: {e}; run again when it answers") from None
        return self._vectors(answer, len(texts))

    def _post(self, body: bytes) -> object:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(f"{self.url}/embeddings", body, headers)  # noqa: S310 (checked: http or https)
        self.usage.calls += 1
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:  # noqa: S310
                return json.loads(reply.read())
        except urllib.error.HTTPError as e:
            if e.code in _RETRIED:
                raise _Retry(f"status {e.code}") from None
            raise PalimpsestError(
                f"embedder {self.model} at {self.url}: status {e.code}; check the model's name, {URL} and {KEY}"
            ) from None
        except (OSError, ValueError) as e:
            raise _Retry(first_line_of(e)) from None

    def _vectors(self, answer: object, count: int) -> np.ndarray:
        try:
            assert isinstance(answer, dict)
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            found = np.asarray([row["embedding"] for row in rows], np.float32)
            tokens = int((answer.get("usage") or {}).get("total_tokens") or 0)
        except (AssertionError, KeyError, TypeError, ValueError):
            raise ComponentFailed(f"embedder {self.model} at {self.url}: the answer has no vectors") from None
        if found.ndim != 2 or len(found) != count or not np.isfinite(found).all():
            raise ComponentFailed(
                f"embedder {self.model} at {self.url}: {len(found)} vectors for {count} texts, or no numbers; "
                "use another server"
            )
        if found.shape[1] != (self.dimensions or found.shape[1]):
            raise PalimpsestError(
                f"embedder {self.model} at {self.url}: vectors of {found.shape[1]} dimensions, was {self.dimensions}; "
                "give the other model another name, or restore the first"
            )
        self.usage.tokens += tokens
        return unit_rows(found)


def server_parts(setting: str, dimensions: int) -> SpaceParts:
    """Returns what the space of `openai:MODEL` is named after; a server says nothing of its weights."""
    return SpaceParts(setting.removeprefix(PREFIX), "openai", "server", "server", dimensions, 0)


@lru_cache(maxsize=8)
def load_server(setting: str, dimensions: int) -> ServerEmbedder:
    """Returns the embedder of `openai:MODEL` on the server that the environment names.

    Raises:
        PalimpsestError: a variable is missing or cannot be read.
    """
    url = (os.environ.get(URL) or "").rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise PalimpsestError(f"{URL}: must be the URL of an OpenAI-compatible server, up to and with /v1; set it")
    try:
        price = float(os.environ.get(PRICE) or 0)
    except ValueError:
        price = -1.0
    if not 0 <= price < math.inf:
        raise PalimpsestError(f"{PRICE}: must be the price of a million tokens, 0 or more; fix it")
    key = os.environ.get(KEY) or "none"
    return ServerEmbedder(setting.removeprefix(PREFIX), url, key, dimensions, ServerUsage(price=price))
