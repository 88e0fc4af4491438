"""What a toolkit must do to be compared. Only the standard library is imported here: peers have their own Pythons."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from palimpsest.core.ids import JsonValue
from palimpsest_eval.peers.embedding import CountedEmbedder, EmbeddingWork


@dataclass(frozen=True)
class Text:
    """One text to be remembered.

    Attributes:
        text_id: its id.
        scope: whose it is; a question is about one scope. Empty where a corpus has no scopes.
        words: title, date, speaker and text in one string: what a toolkit that takes strings is given.
        row: the same as a row of a suite, which has these apart.
    """

    text_id: str
    scope: str
    words: str
    row: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """A question, and its scope."""

    query_id: str
    scope: str
    text: str


@dataclass(frozen=True)
class Neo4jLogin:
    """The Neo4j server that all peers share, one after the other."""

    uri: str
    user: str
    password: str


@dataclass(frozen=True)
class Setting:
    """What a peer is given besides texts.

    Attributes:
        folder: an empty folder for all that it stores.
        embedder: the model that every peer uses.
        neo4j: the server, for the peers that need one.
        lm_url: base URL of the scripted language model, for the peers that need one.
    """

    folder: Path
    embedder: CountedEmbedder
    neo4j: Neo4jLogin | None = None
    lm_url: str | None = None

    @property
    def server(self) -> Neo4jLogin:
        """The Neo4j server, of a peer that needs one."""
        assert self.neo4j is not None
        return self.neo4j


class Unsupported(Exception):
    """The toolkit has no such operation; the message says what a caller does instead."""


class Peer(Protocol):
    """A toolkit under comparison."""

    def warm_up(self) -> None:
        """Loads the embedder, so that no timed operation does."""

    def build(self, texts: Sequence[Text]) -> None:
        """Stores all texts, so that they can be searched."""

    def rebuild(self, texts: Sequence[Text]) -> None:
        """Stores a corpus of which most texts are stored already: the toolkit itself finds out which changed.

        Raises:
            Unsupported: the toolkit does not find that out.
        """

    def update(self, changed: Sequence[Text]) -> None:
        """Stores new versions of texts, which the caller names.

        Raises:
            Unsupported: a text cannot be replaced by its id.
        """

    def search(self, question: Question, k: int) -> list[str]:
        """Returns the ids of at most `k` texts of the question's scope, best first."""

    def embedding(self) -> EmbeddingWork:
        """Returns what was embedded so far, questions included."""

    def bytes_on_disk(self) -> int | None:
        """Returns the bytes below the folder; None where a server stores the texts."""

    def close(self) -> None:
        """Ends its connections. What a server stores is left there: the next peer empties the database."""


class BasePeer:
    """What most peers share."""

    def __init__(self, setting: Setting):
        self.setting, self.embedder = setting, setting.embedder

    def warm_up(self) -> None:
        """Loads the embedder that was given."""
        self.embedder.load()

    def rebuild(self, texts: Sequence[Text]) -> None:
        """Raises Unsupported.

        Raises:
            Unsupported: always.
        """
        raise Unsupported("it does not record which texts it stored: all are stored again")

    def update(self, changed: Sequence[Text]) -> None:
        """Raises Unsupported.

        Raises:
            Unsupported: always.
        """
        raise Unsupported("a text cannot be replaced by its id")

    def embedding(self) -> EmbeddingWork:
        """Returns the counts of the embedder that was given."""
        return self.embedder.work

    def bytes_on_disk(self) -> int | None:
        """Returns the bytes below the folder."""
        return folder_bytes(self.setting.folder)

    def close(self) -> None:
        """Does nothing."""


def by_scope(texts: Iterable[Text]) -> dict[str, list[Text]]:
    """Returns the texts of each scope, in order."""
    scopes: dict[str, list[Text]] = {}
    for text in texts:
        scopes.setdefault(text.scope, []).append(text)
    return scopes


def folder_bytes(folder: Path) -> int:
    """Returns the bytes of all files below a folder."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def write_lines(path: Path, items: Iterable[Text] | Iterable[Question]) -> None:
    """Writes one JSON object a line."""
    with path.open("w", encoding="utf-8") as out:
        for item in items:
            out.write(json.dumps(asdict(item), ensure_ascii=False) + "\n")


def read_texts(path: Path) -> list[Text]:
    """Reads texts that `write_lines` wrote."""
    return [Text(**json.loads(line)) for line in path.open(encoding="utf-8")]


def read_questions(path: Path) -> list[Question]:
    """Reads questions that `write_lines` wrote."""
    return [Question(**json.loads(line)) for line in path.open(encoding="utf-8")]
