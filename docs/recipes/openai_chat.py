"""A chat with memory, by the OpenAI SDK and any server that speaks its API.

pip install openai httpx
palimpsest service start && export TOKEN=$(palimpsest serve token --user ann)
OPENAI_BASE_URL=... OPENAI_API_KEY=... MODEL=... python openai_chat.py      # an empty line ends it
"""

import os
import re
import uuid
from typing import Any

import httpx
from openai import OpenAI

SYSTEM = "Answer from the conversation and from memory. Cite memory by its number. Say so where neither has the answer."
COLLECTION = os.environ.get("COLLECTION")  # where to remember; needed where the user's memories are in several
URL = os.environ.get("MEMORY_URL", "http://127.0.0.1:8765")


class Chat:
    """A conversation of one user: the token of the client says whose memories are read and written."""

    def __init__(self, memories: httpx.Client, model: OpenAI, model_name: str):
        self.memories, self.model, self.model_name = memories, model, model_name
        self.session, self.turns = uuid.uuid4().hex, []

    def say(self, text: str) -> str:
        """Answers a message, then remembers it: the next turn finds it, in this session and in every other."""
        request = {"role": "user", "content": text}
        found = self.post("/memories/search", {"q": text, "turns": self.turns[-5:], "budget_tokens": 1200})
        # The service marks what it recalled as data, for the role user; it is never a part of the system message.
        messages = [{"role": "system", "content": SYSTEM}, found["message"], *self.turns[-10:], request]
        done = self.model.chat.completions.create(model=self.model_name, messages=messages)
        reply = done.choices[0].message.content or ""
        shown = re.sub(r" ?\[\d{1,3}\]", "", reply)  # the numbers mean nothing in another context
        self.turns += [request, {"role": "assistant", "content": shown}]
        # Replies are not remembered: they repeat memories, and old ones would look like new statements.
        self.post("/memory", {"turns": [request], "session": self.session, "collection": COLLECTION})
        return reply

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Sends a request to the service; an error says what is wrong with it."""
        answer = self.memories.post(path, json=body)
        if answer.is_error:
            raise RuntimeError(answer.json()["detail"])
        return answer.json()


if __name__ == "__main__":
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    with httpx.Client(base_url=URL, headers=headers, timeout=30) as client:
        chat = Chat(client, OpenAI(), os.environ["MODEL"])
        while line := input("> "):
            print(chat.say(line))
