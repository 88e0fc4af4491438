"""The toolkits that are compared: where each runs, how it is configured, and what it can do besides search."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

LOCKS = Path(__file__).with_name("locks")
CAPABILITIES = ("as_of", "supersedes", "owner_scopes", "delete_with_proof", "gate")
_ADAPTERS = "palimpsest_eval.peers.adapters"


@dataclass(frozen=True)
class PeerInfo:
    """A toolkit under comparison.

    Attributes:
        name: in options, tables and of its lock file.
        module: module with `open_peer`.
        package: the distribution whose version is reported.
        setting: how it is configured, in one line.
        venv: folder name of its Python and of its lock file; empty for the Python of this project.
        needs_neo4j: whether it stores texts in Neo4j.
        needs_lm: whether it calls a language model.
        is_judged: whether it is measured on suites; not where another row ranks in the same manner.
        can: what it can do besides search, by capability; a capability that is left out is `no`.
    """

    name: str
    module: str
    package: str
    setting: str
    venv: str = ""
    needs_neo4j: bool = False
    needs_lm: bool = False
    is_judged: bool = True
    can: Mapping[str, str] = field(default_factory=dict)

    def python(self, venvs: Path) -> Path:
        """Returns its Python below the folder of the peers' environments."""
        return venvs / self.venv / "bin" / "python"

    @property
    def version(self) -> str:
        """The version that its lock file has; this project's own for Palimpsest."""
        from palimpsest import __version__

        if not self.venv:
            return __version__
        for line in (LOCKS / f"{self.venv}.txt").read_text(encoding="utf-8").splitlines():
            name, _, version = line.partition("==")
            if name == self.package:
                return version.split()[0]
        return "unknown"


_OURS = {
    "as_of": "yes",
    "supersedes": "by rules and a trained model, no LM",
    "owner_scopes": "enforced in every query",
    "delete_with_proof": "yes",
    "gate": "yes",
}

_FILTER = {"owner_scopes": "filter that the caller writes"}
_LABEL = {"owner_scopes": "a label and two indexes for each owner, by the caller"}

PEERS: tuple[PeerInfo, ...] = (
    PeerInfo(
        "palimpsest",
        f"{_ADAPTERS}.palimpsest_home",
        "palimpsest-memory",
        "DuckDB, strategy auto, 1,200 tokens packed and cited",
        can=_OURS,
    ),
    PeerInfo(
        "palimpsest-neo4j",
        f"{_ADAPTERS}.palimpsest_graph",
        "palimpsest-memory",
        "the same build loaded into Neo4j and searched there; ranks as palimpsest does",
        needs_neo4j=True,
        is_judged=False,
        can=_OURS,
    ),
    PeerInfo(
        "txtai",
        f"{_ADAPTERS}.txtai_hybrid",
        "txtai",
        "hybrid=True (BM25 and vectors, half and half), content=True, scope by SQL",
        venv="txtai",
        can=_FILTER,
    ),
    PeerInfo(
        "neo4j-graphrag",
        f"{_ADAPTERS}.graphrag_hybrid",
        "neo4j-graphrag",
        "TextChunkEmbedder, Neo4jWriter, HybridCypherRetriever with the linear ranker, alpha .3",
        venv="neo4j-graphrag",
        needs_neo4j=True,
        can=_LABEL,
    ),
    PeerInfo(
        "langchain-neo4j",
        f"{_ADAPTERS}.langchain_neo4j",
        "langchain-neo4j",
        "Neo4jVector, search_type hybrid",
        venv="langchain-neo4j",
        needs_neo4j=True,
        can=_LABEL,
    ),
    PeerInfo(
        "llama-index",
        f"{_ADAPTERS}.llama_index_neo4j",
        "llama-index-core",
        "IngestionPipeline with UPSERTS, Neo4jVectorStore with hybrid_search",
        venv="llama-index",
        needs_neo4j=True,
        can=_LABEL,
    ),
    PeerInfo(
        "mem0",
        f"{_ADAPTERS}.mem0_store",
        "mem0ai",
        "add with infer=False, local Qdrant, BM25 by fastembed, entities by spaCy",
        venv="mem0",
        can={"owner_scopes": "user_id in every call", "supersedes": "by LM calls, with infer=True"},
    ),
    PeerInfo(
        "graphiti",
        f"{_ADAPTERS}.graphiti_graph",
        "graphiti-core",
        "add_episode_bulk, facts by words and vectors and episodes by words, ranks fused, no reranker",
        venv="graphiti",
        needs_neo4j=True,
        needs_lm=True,
        can={
            "as_of": "filters of valid_at and invalid_at, which its LM writes",
            "supersedes": "by LM calls",
            "owner_scopes": "group_id in every call",
        },
    ),
    PeerInfo(
        "lightrag",
        f"{_ADAPTERS}.lightrag_graph",
        "lightrag-hku",
        "mode mix, its default file storages, chunks of the context in its order, no reranker",
        venv="lightrag",
        needs_lm=True,
        can={"owner_scopes": "a workspace for each owner"},
    ),
    PeerInfo(
        "hipporag",
        f"{_ADAPTERS}.hipporag_graph",
        "hipporag",
        "online mode, defaults; versions of its dependencies that it does not pin, embedder by its interface",
        venv="hipporag",
        needs_lm=True,
        can={"owner_scopes": "a folder for each owner"},
    ),
)


def find_peers(names: str | None) -> tuple[PeerInfo, ...]:
    """Returns the peers of a comma-separated list of names, in the order of the registry; None means all.

    Raises:
        PalimpsestError: there is no peer of a name.
    """
    from palimpsest.core.errors import PalimpsestError

    if names is None:
        return PEERS
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {peer.name for peer in PEERS}
    for name in wanted:
        if name not in known:
            raise PalimpsestError(f"--peers {name}: not one of {', '.join(sorted(known))}")
    return tuple(peer for peer in PEERS if peer.name in wanted)
