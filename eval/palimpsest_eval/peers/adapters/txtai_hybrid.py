"""txtai: an Embeddings database with BM25 and vectors, `hybrid=True`, and SQL for the scope."""

from collections.abc import Sequence
from typing import Any

from palimpsest_eval.peers.peer import BasePeer, Question, Setting, Text

_SEARCH = "SELECT id, score FROM txtai WHERE similar(:question, :candidates) AND scope = :scope"


class TxtaiPeer(BasePeer):
    """One index of all scopes; every text is a candidate before the scope is filtered."""

    def __init__(self, setting: Setting):
        from txtai import Embeddings

        super().__init__(setting)

        def embed(texts: list[str]) -> Any:  # txtai calls any other callable once to get a function
            return self.embedder.encode(texts)

        self._index: Any = Embeddings(method="external", transform=embed, content=True, hybrid=True)
        self._path = str(setting.folder / "index")
        self._size = 0

    def build(self, texts: Sequence[Text]) -> None:
        """Indexes and saves."""
        self._index.index(map(_row, texts))
        self._index.save(self._path)
        self._size = len(texts)

    def update(self, changed: Sequence[Text]) -> None:
        """Upserts and saves."""
        self._index.upsert(map(_row, changed))
        self._index.save(self._path)

    def search(self, question: Question, k: int) -> list[str]:
        """Searches by BM25 and vectors, half and half, the default."""
        values = {"question": question.text, "candidates": self._size, "scope": question.scope}
        return [row["id"] for row in self._index.search(_SEARCH, k, parameters=values)]


def _row(text: Text) -> dict[str, str]:
    return {"id": text.text_id, "text": text.words, "scope": text.scope}


open_peer = TxtaiPeer
