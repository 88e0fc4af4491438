"""A LlamaIndex retriever of a user's memories, and an answer from them by any LLM of LlamaIndex.

pip install llama-index-core httpx
palimpsest service start && export TOKEN=$(palimpsest serve token --user ann)
python llama_index_retriever.py "Where do I work?"      # prints what is found; `answer` takes an LLM of yours
"""

import os
import sys
from typing import Any

import httpx
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import LLM
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

SYSTEM = "Answer from memory. Cite it by its number. Say so where it does not have the answer."
URL = os.environ.get("MEMORY_URL", "http://127.0.0.1:8765")
FIELDS = ("collection", "session_id", "speaker", "observed_at", "uri", "is_pending", "disputed_by")


class PalimpsestRetriever(BaseRetriever):
    """Retrieves what is current for the user of the client's token; what a newer memory replaced is left out."""

    def __init__(self, client: httpx.Client, k: int = 5):
        super().__init__()
        self.client, self.k = client, k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(id_=m["memory_id"], text=m["text"], metadata={name: m[name] for name in FIELDS}),
                score=m["relevance"],
            )
            for m in self.search(query_bundle.query_str)["memories"]
        ]

    def message(self, question: str) -> ChatMessage:
        """Returns the memories as one message, marked as data.

        Context chat engines of LlamaIndex write the texts of nodes into the system message: give them no retriever of
        texts that you did not write, and take this message.
        """
        return ChatMessage(**self.search(question)["message"])

    def search(self, query: str) -> dict[str, Any]:
        """Returns the answer of the service."""
        answer = self.client.post("/memories/search", json={"q": query, "k": self.k, "budget_tokens": 1200})
        return answer.raise_for_status().json()


def answer(llm: LLM, retriever: PalimpsestRetriever, question: str) -> str:
    """Answers a question from memory."""
    asked = [ChatMessage(role="system", content=SYSTEM), retriever.message(question), ChatMessage(content=question)]
    return llm.chat(asked).message.content or ""


if __name__ == "__main__":
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    with httpx.Client(base_url=URL, headers=headers, timeout=30) as client:
        for node in PalimpsestRetriever(client).retrieve(sys.argv[1]):
            print(f"{node.score:.2f}  {node.text}")
