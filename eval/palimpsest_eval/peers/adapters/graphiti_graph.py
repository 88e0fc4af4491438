"""graphiti: episodes, entities and facts in Neo4j; facts searched by words and vectors, episodes by words."""

import asyncio
import datetime as dt
import logging
import os
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any

from palimpsest_eval.peers.embedding import DIMENSIONS
from palimpsest_eval.peers.neo4j_peer import empty_database
from palimpsest_eval.peers.peer import BasePeer, Question, Setting, Text, by_scope

_BULK = 25
_MODEL = "scripted"
_EPOCH = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


class GraphitiPeer(BasePeer):
    """A group for each scope. It records no hashes of texts, so a caller removes and adds what changed."""

    def __init__(self, setting: Setting):
        os.environ["EMBEDDING_DIM"] = str(DIMENSIONS)
        from graphiti_core import Graphiti

        super().__init__(setting)
        login = setting.server
        self._empty()
        self._loop = asyncio.new_event_loop()
        self._graph: Any = Graphiti(
            login.uri,
            login.user,
            login.password,
            llm_client=_client(setting),
            embedder=_embedder(setting),
            cross_encoder=_no_reranker(),
        )
        self._run(self._graph.build_indices_and_constraints())
        self._groups: dict[str, str] = {}
        self._episodes: dict[str, str] = {}

    def build(self, texts: Sequence[Text]) -> None:
        """Adds the texts of each scope in bulk."""
        for scope, members in by_scope(texts).items():
            group = self._groups.setdefault(scope, f"scope{len(self._groups)}")
            for start in range(0, len(members), _BULK):
                self._run(self._add(group, members[start : start + _BULK]))

    def update(self, changed: Sequence[Text]) -> None:
        """Removes the episodes and adds new ones."""
        of_text = {text_id: uuid for uuid, text_id in self._episodes.items()}
        for text in changed:
            self._run(self._graph.remove_episode(of_text[text.text_id]))
        self.build(changed)

    def search(self, question: Question, k: int) -> list[str]:
        """Searches facts and episodes; their texts alternate, for both lists have ranks of their own."""
        from graphiti_core.search.search_config_recipes import COMBINED_HYBRID_SEARCH_RRF

        config = COMBINED_HYBRID_SEARCH_RRF.model_copy(
            update={"node_config": None, "community_config": None, "limit": k}
        )
        found = self._run(self._graph.search_(question.text, config=config, group_ids=[self._groups[question.scope]]))
        facts = [uuid for edge in found.edges for uuid in edge.episodes]
        episodes = [episode.uuid for episode in found.episodes]
        ids = (self._episodes[uuid] for uuid in _alternate(facts, episodes) if uuid in self._episodes)
        return list(dict.fromkeys(ids))[:k]

    def bytes_on_disk(self) -> int | None:
        """Returns None: the server stores the texts."""
        return None

    def close(self) -> None:
        """Ends the connections."""
        self._run(self._graph.close())
        self._loop.close()

    def _empty(self) -> None:
        import neo4j

        logging.getLogger("neo4j.notifications").setLevel(logging.ERROR)  # of properties that an empty store lacks
        login = self.setting.server
        with neo4j.GraphDatabase.driver(login.uri, auth=(login.user, login.password)) as driver:
            empty_database(driver)

    async def _add(self, group: str, texts: Sequence[Text]) -> None:
        from graphiti_core.nodes import EpisodeType
        from graphiti_core.utils.bulk_utils import RawEpisode

        known = len(self._episodes)
        episodes = [
            RawEpisode(
                name=text.text_id,
                content=text.words,
                source_description="text",
                source=EpisodeType.message,
                reference_time=_EPOCH + dt.timedelta(minutes=known + i),
            )
            for i, text in enumerate(texts)
        ]
        added = await self._graph.add_episode_bulk(episodes, group_id=group)
        self._episodes |= {episode.uuid: episode.name for episode in added.episodes}

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)


def _alternate(*lists: Sequence[str]) -> Iterator[str]:
    return (item for item in chain.from_iterable(zip_longest(*lists)) if item is not None)


def _client(setting: Setting) -> Any:
    from graphiti_core.llm_client.config import LLMConfig
    from graphiti_core.llm_client.openai_generic_client import OpenAIGenericClient

    return OpenAIGenericClient(LLMConfig(api_key="none", model=_MODEL, small_model=_MODEL, base_url=setting.lm_url))


def _embedder(setting: Setting) -> Any:
    """Returns the given embedder as the toolkit's kind of one."""
    from graphiti_core.embedder import EmbedderClient

    class Given(EmbedderClient):
        async def create(self, input_data: Any) -> list[float]:
            return (await self.create_batch([input_data] if isinstance(input_data, str) else list(input_data)))[0]

        async def create_batch(self, input_data_list: list[str]) -> list[list[float]]:
            return [[float(x) for x in vector] for vector in setting.embedder.encode(input_data_list)]

    return Given()


def _no_reranker() -> Any:
    """Returns a reranker that is never called: ranks are fused, and without one it would want a model for this."""
    from graphiti_core.cross_encoder.client import CrossEncoderClient

    class Unused(CrossEncoderClient):
        async def rank(self, query: str, passages: list[str]) -> list[tuple[str, float]]:
            return [(passage, 0.0) for passage in passages]

    return Unused()


open_peer = GraphitiPeer
