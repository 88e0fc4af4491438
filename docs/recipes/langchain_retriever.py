"""A LangChain retriever of a user's memories, and a chain that answers from them.

pip install langchain-core langchain-openai httpx
palimpsest service start && export TOKEN=$(palimpsest serve token --user ann)
OPENAI_BASE_URL=... OPENAI_API_KEY=... MODEL=... python langchain_retriever.py "Where do I work?"
"""

import os
import sys
from typing import Any

import httpx
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough

SYSTEM = "Answer from memory. Cite it by its number. Say so where it does not have the answer."
URL = os.environ.get("MEMORY_URL", "http://127.0.0.1:8765")
FIELDS = ("collection", "session_id", "speaker", "observed_at", "uri", "relevance", "is_pending", "disputed_by")


class PalimpsestRetriever(BaseRetriever):
    """Retrieves what is current for the user of the client's token; what a newer memory replaced is left out."""

    client: httpx.Client
    k: int = 5

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [
            Document(id=m["memory_id"], page_content=m["text"], metadata={name: m[name] for name in FIELDS})
            for m in self.search(query)["memories"]
        ]

    def message(self, question: str) -> list[BaseMessage]:
        """Returns the memories as one message, marked as data: put this into a prompt, not the texts of documents."""
        return [HumanMessage(self.search(question)["message"]["content"])]

    def search(self, query: str) -> dict[str, Any]:
        """Returns the answer of the service."""
        answer = self.client.post("/memories/search", json={"q": query, "k": self.k, "budget_tokens": 1200})
        return answer.raise_for_status().json()


def make_chain(retriever: PalimpsestRetriever, model: BaseChatModel) -> Runnable[str, str]:
    """Returns a chain from a question to its answer."""
    prompt = ChatPromptTemplate([("system", SYSTEM), MessagesPlaceholder("memory"), ("human", "{question}")])
    found = {"memory": RunnableLambda(retriever.message), "question": RunnablePassthrough()}
    return found | prompt | model | StrOutputParser()


if __name__ == "__main__":
    from langchain_openai import ChatOpenAI

    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    with httpx.Client(base_url=URL, headers=headers, timeout=30) as client:
        print(make_chain(PalimpsestRetriever(client=client), ChatOpenAI(model=os.environ["MODEL"])).invoke(sys.argv[1]))
