"""Palimpsest: a home on DuckDB, its builds without the gate, searches by the strategy `auto`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from palimpsest.core.files import write_json
from palimpsest_eval.peers.embedding import EmbeddingWork
from palimpsest_eval.peers.peer import BasePeer, Question, Setting, Text, folder_bytes

if TYPE_CHECKING:
    from palimpsest.query.reader import Reader

COLLECTION, SHARED_USER = "peers", "shared"
BUDGET_TOKENS = 1200


class PalimpsestPeer(BasePeer):
    """One collection in the layout of a suite; a build reads it from its files and finds out what changed."""

    backend = "duckdb"

    def __init__(self, setting: Setting):
        from palimpsest.store.home import Home

        super().__init__(setting)
        self._corpus, self._home = setting.folder / "corpus", Home(setting.folder / "home")
        self._reader: Reader | None = None
        self._work = EmbeddingWork()

    def warm_up(self) -> None:
        """Loads the batch embedder."""
        from palimpsest.memories.embed import load_embedder

        load_embedder().encode(["warm up"])

    def build(self, texts: Sequence[Text]) -> None:
        """Writes the collection, builds and publishes it."""
        from palimpsest.pipeline.finish import run_without_dagster
        from palimpsest.pipeline.plan import make_plan
        from palimpsest.pipeline.summary import build_summary

        self._write(self._corpus / COLLECTION, texts)
        self._home.create()
        plan = make_plan(self._home, [self._corpus])
        if plan.nothing_to_do:
            return
        summary = build_summary(self._home, run_without_dagster(self._home, plan))
        self._count(summary.work["embeddings"], summary.seconds["embeddings"])
        self._close_reader()

    def rebuild(self, texts: Sequence[Text]) -> None:
        """Builds: only what changed is made again."""
        self.build(texts)

    def search(self, question: Question, k: int) -> list[str]:
        """Searches as `palimpsest query` does: ranking, packing and citing included."""
        from palimpsest.query.reader import open_home
        from palimpsest.query.request.types import Scope
        from palimpsest_eval.suites.suite import corpus_id

        if self._reader is None:
            self._reader = open_home(self._home.path, self.backend, count_reads=False)
        scope = Scope(COLLECTION, question.scope or SHARED_USER)
        result = self._reader.search(question.text, scope, k=k, all_results=True, budget_tokens=BUDGET_TOKENS)
        self._count(1, result.timings["embed_ms"] / 1000)
        return list(dict.fromkeys(corpus_id(m.uri or "") for m in result.memories))

    def embedding(self) -> EmbeddingWork:
        """Returns what the stage `embeddings` and the searches counted."""
        return self._work

    def bytes_on_disk(self) -> int:
        """Returns the bytes of the home, the ingest log and earlier builds included."""
        return folder_bytes(self._home.path)

    def close(self) -> None:
        """Closes the reader."""
        self._close_reader()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _count(self, texts: int, seconds: float) -> None:
        self._work = EmbeddingWork(self._work.texts + texts, self._work.seconds + seconds)

    @staticmethod
    def _write(folder: Path, texts: Sequence[Text]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        metas = [text.row.get("meta") for text in texts]
        speak = sum(isinstance(meta, Mapping) and bool(meta.get("speaker")) for meta in metas)
        config = {
            "name": COLLECTION,
            "description": f"{len(texts)} texts",
            "unit": "turn" if 2 * speak > len(texts) else "chunk",
            "user_id": SHARED_USER,
            "store_tool_outputs": True,
        }
        write_json(folder / "collection.yaml", config)  # JSON is YAML
        lines = (json.dumps(dict(text.row), ensure_ascii=False) + "\n" for text in texts)
        (folder / "corpus.jsonl").write_text("".join(lines), encoding="utf-8")


open_peer = PalimpsestPeer
