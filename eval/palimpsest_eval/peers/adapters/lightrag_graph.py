"""LightRAG: entities, relations and chunks in its own files (NanoVectorDB, NetworkX, JSON), mode `mix`."""

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any

from palimpsest_eval.peers.embedding import DIMENSIONS
from palimpsest_eval.peers.peer import BasePeer, Question, Setting, Text, by_scope

MODE = "mix"
_MODEL = "scripted"


class LightragPeer(BasePeer):
    """A workspace for each scope. With ids of the caller it skips a known id, whatever its text is now."""

    def __init__(self, setting: Setting):
        super().__init__(setting)
        self._loop = _loop()
        self._stores: dict[str, Any] = {}
        self._ids: dict[str, str] = {}

    def build(self, texts: Sequence[Text]) -> None:
        """Inserts the texts of each scope.

        Raises:
            RuntimeError: a text was not processed.
        """
        for scope, members in by_scope(texts).items():
            self._loop.run_until_complete(self._insert(scope, members))

    def update(self, changed: Sequence[Text]) -> None:
        """Deletes the texts and inserts them again: an insert does not replace."""
        self._loop.run_until_complete(self._delete(changed))
        self.build(changed)

    def search(self, question: Question, k: int) -> list[str]:
        """Retrieves chunks by entities, relations and vectors; the model extracts keywords of the question."""
        from lightrag import QueryParam

        store = self._stores[question.scope]
        param = QueryParam(mode=MODE, enable_rerank=False)
        found = self._loop.run_until_complete(store.aquery_data(question.text, param))
        ids = [self._ids[chunk["file_path"]] for chunk in found.get("data", {}).get("chunks", [])]
        return list(dict.fromkeys(ids))[:k]

    def close(self) -> None:
        """Ends the storages."""
        for store in self._stores.values():
            self._loop.run_until_complete(store.finalize_storages())

    async def _insert(self, scope: str, texts: Sequence[Text]) -> None:
        if scope not in self._stores:
            self._stores[scope] = await self._open(f"corpus{self.setting.folder.name}_scope{len(self._stores)}")
        names = [self._name(text.text_id) for text in texts]
        store = self._stores[scope]
        await store.ainsert([text.words for text in texts], ids=[text.text_id for text in texts], file_paths=names)
        status = await store.get_processing_status()
        if status.get("failed"):
            raise RuntimeError(f"{status['failed']} texts failed: see its log")

    async def _delete(self, texts: Sequence[Text]) -> None:
        for text in texts:
            await self._stores[text.scope].adelete_by_doc_id(text.text_id)

    def _name(self, text_id: str) -> str:
        """Returns a file name for a text, which its chunks carry: an id may have characters that a name has not."""
        name = f"{len(self._ids)}.txt"
        self._ids[name] = text_id
        return name

    async def _open(self, workspace: str) -> Any:
        from lightrag import LightRAG
        from lightrag.utils import EmbeddingFunc, Tokenizer

        async def embed(texts: list[str], **_: object) -> Any:
            return self.embedder.encode(texts)

        async def complete(prompt: str, system_prompt: str | None = None, **options: Any) -> str:
            from lightrag.llm.openai import openai_complete_if_cache

            known = {name: options[name] for name in ("history_messages", "response_format") if name in options}
            url = self.setting.lm_url
            return str(
                await openai_complete_if_cache(_MODEL, prompt, system_prompt, base_url=url, api_key="none", **known)
            )

        store = LightRAG(
            working_dir=str(self.setting.folder),
            workspace=workspace,
            tokenizer=Tokenizer("four-characters", _FourCharacters()),
            embedding_func=EmbeddingFunc(embedding_dim=DIMENSIONS, func=embed, model_name="all-MiniLM-L6-v2"),
            llm_model_func=complete,
            llm_model_name=_MODEL,
        )
        await store.initialize_storages()
        return store


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Returns one loop for the process: its locks and queues are kept for the next corpus, and belong to the loop."""
    return asyncio.new_event_loop()


class _FourCharacters:
    """Counts a token for four characters: its own tokenizer would be downloaded."""

    def encode(self, content: str) -> list[int]:
        pieces = (content[i : i + 4].encode("utf-8", "surrogatepass") for i in range(0, len(content), 4))
        return [int.from_bytes(b"\x01" + piece, "big") for piece in pieces]

    def decode(self, tokens: list[int]) -> str:
        pieces = (token.to_bytes((token.bit_length() + 7) // 8, "big")[1:] for token in tokens)
        return b"".join(pieces).decode("utf-8", "surrogatepass")


open_peer = LightragPeer
