"""HippoRAG 2: triples, phrase and passage nodes, personalised PageRank; files of its own."""

import importlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from palimpsest_eval.peers.peer import BasePeer, Question, Setting, Text, by_scope

_MODEL = "scripted"
_EMBEDDER = "all-MiniLM-L6-v2"


class HipporagPeer(BasePeer):
    """A folder for each scope. A text is known by the hash of its words, so the caller deletes earlier versions."""

    def __init__(self, setting: Setting):
        super().__init__(setting)
        self._stores: dict[str, Any] = {}
        self._words: dict[str, str] = {}
        self._open = _opener(setting)

    def build(self, texts: Sequence[Text]) -> None:
        """Indexes the texts of each scope; those that are indexed already are skipped."""
        for scope, members in by_scope(texts).items():
            if scope not in self._stores:
                self._stores[scope] = self._open(len(self._stores))
            self._words |= {text.text_id: text.words for text in members}
            self._stores[scope].index([text.words for text in members])
            self._stores[scope].ready_to_retrieve = False  # else it searches what it had loaded before

    def rebuild(self, texts: Sequence[Text]) -> None:
        """Indexes everything, and deletes the texts that are no longer there."""
        self.build(texts)
        for scope, members in by_scope(texts).items():
            store = self._stores[scope]
            gone = store.chunk_embedding_store.get_all_texts() - {text.words for text in members}
            if gone:
                store.delete(sorted(gone))

    def update(self, changed: Sequence[Text]) -> None:
        """Deletes the earlier versions and indexes the new ones."""
        for scope, members in by_scope(changed).items():
            self._stores[scope].delete([self._words[text.text_id] for text in members])
        self.build(changed)

    def search(self, question: Question, k: int) -> list[str]:
        """Retrieves passages: facts, the model's filter of them, PageRank."""
        found = self._stores[question.scope].retrieve([question.text], num_to_retrieve=k)[0]
        ids = {words: text_id for text_id, words in self._words.items()}
        return [ids[words] for words in found.docs]


def _opener(setting: Setting) -> Any:
    """Returns a function that opens the store of a number.

    The package imports vllm and the embedders of GPUs when it is imported; the mode `online` calls none of them.
    """
    for name, attributes in (("vllm", ("LLM", "SamplingParams")), ("gritlm", ("GritLM",))):
        module = ModuleType(name)
        for attribute in attributes:
            setattr(module, attribute, type(attribute, (), {}))
        sys.modules.setdefault(name, module)
    package: Any = importlib.import_module("hipporag.HippoRAG")  # the class of the same name hides the module
    from hipporag.utils.config_utils import BaseConfig

    class Given:
        """The embedder of all peers, in the place of the five families that it knows; instructions are for those."""

        def __init__(self, **_: object):
            pass

        def batch_encode(self, texts: str | list[str], **_: object) -> Any:
            return setting.embedder.encode([texts] if isinstance(texts, str) else texts)

    package._get_embedding_model_class = lambda **_: Given

    def open_store(number: int) -> Any:
        return package.HippoRAG(
            BaseConfig(save_dir=str(setting.folder / f"scope{number}")),
            llm_model_name=_MODEL,
            llm_base_url=setting.lm_url,
            embedding_model_name=_EMBEDDER,
        )

    return open_store


open_peer = HipporagPeer
