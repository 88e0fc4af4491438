"""A LangGraph store on Palimpsest: `graph.compile(store=PalimpsestStore(client_of))`, namespaces (user, collection).

    pip install langgraph httpx        # and `palimpsest service start`

A new home has the collection `inbox`. A value is {"text": ...}, found at once. Searches find what is current: what a
newer item replaced is found no more. `delete` waits until it is proved that nothing is left. What has no place in
Palimpsest raises NotImplementedError, and what the service refuses a RuntimeError with its reason.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

import httpx
from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchItem, SearchOp

Fields = dict[str, Any]


class PalimpsestStore(BaseStore):
    """Items of users; `client_of` returns a client of the service with the token of a user: the service checks it."""

    def __init__(self, client_of: Callable[[str], httpx.Client]):
        self.client_of = client_of

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Does one thing after the other."""
        does = {GetOp: self._get, PutOp: self._put, SearchOp: self._search, ListNamespacesOp: self._namespaces}
        return [does[type(op)](op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Does the same in a thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def message(self, user: str, question: str) -> Fields:
        """Returns what is remembered as one message of a chat, marked as data: for prompts, in the place of values."""
        return self._call(user, "POST", "/memories/search", json={"q": question, "budget_tokens": 1200})["message"]

    def _get(self, op: GetOp) -> Item | None:
        found = self._find(op)
        return _item(found[0]) if found else None

    def _put(self, op: PutOp) -> None:
        user, found = op.namespace[0], self._find(op, history=op.value is None)
        if op.value is None:
            for memory in found:  # the versions that it had, too
                self._delete(user, memory["memory_id"])
        elif set(op.value) != {"text"} or op.index is not None:
            raise NotImplementedError('a memory is a text, and all of it is searched: put {"text": ...} without index')
        elif not found:
            body = {**op.value, "collection": op.namespace[1], "tags": [f"key:{op.key}"]}
            self._call(user, "POST", "/memory", json=body)
        elif found[0]["text"] != op.value["text"]:
            self._call(user, "PUT", f"/memory/{found[0]['memory_id']}", json=op.value)

    def _delete(self, user: str, memory_id: str) -> None:
        operation = self._call(user, "DELETE", f"/memory/{memory_id}")
        while operation["state"] == "received":
            time.sleep(0.1)
            operation = self._call(user, "GET", f"/operations/{operation['operation_id']}")
        if operation["state"] != "deleted":
            raise RuntimeError(operation["reason"])

    def _search(self, op: SearchOp) -> list[SearchItem]:
        if len(op.namespace_prefix) != 2 or op.filter:
            raise NotImplementedError("a search is of (user, collection), without filter")
        user, collection = op.namespace_prefix
        if op.query is None:
            where = {"collection": collection, "limit": op.limit, "offset": op.offset}
            return [_item(m) for m in self._call(user, "GET", "/memories", params=where)["memories"]]
        body = {"q": op.query, "collection": collection, "k": op.offset + op.limit}
        return [_item(m) for m in self._call(user, "POST", "/memories/search", json=body)["memories"]][op.offset :]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        if [(c.match_type, len(c.path), "*" in c.path) for c in op.match_conditions or ()] != [("prefix", 1, False)]:
            raise NotImplementedError("list_namespaces takes prefix=(user,): a token shows collections of one user")
        user = op.match_conditions[0].path[0]
        found = {(user, name)[: op.max_depth] for name in self._call(user, "GET", "/users/me")["own_collections"]}
        return sorted(found)[op.offset : op.offset + op.limit]

    def _find(self, op: GetOp | PutOp, history: bool = False) -> list[Fields]:
        """Returns the memory under a key: that of `put`, or of another memory its id, as searches return it."""
        if len(op.namespace) != 2:
            raise NotImplementedError("a namespace is (user, collection)")
        user, collection = op.namespace
        where = {"collection": collection, "tags": f"key:{op.key}", "history": history}
        found = self._call(user, "GET", "/memories", params=where)["memories"]
        if not found and re.fullmatch("[0-9a-f]{16}", op.key):
            answer = self.client_of(user).get(f"/memory/{op.key}")
            found = [answer.json()] if answer.is_success and answer.json()["collection"] == collection else []
        if len(found) > 1 and not history:
            raise NotImplementedError("its text became several memories: use a collection whose unit is turn")
        return found

    def _call(self, user: str, method: str, path: str, **content: Any) -> Fields:
        answer = self.client_of(user).request(method, path, **content)
        if answer.is_error:
            raise RuntimeError(answer.json()["detail"])
        return answer.json()


def _item(memory: Fields) -> SearchItem:
    keys = [tag.removeprefix("key:") for tag in memory["tags"] if tag.startswith("key:")]
    return SearchItem(
        (memory["user_id"], memory["collection"]),
        keys[0] if keys else memory["memory_id"],
        {"text": memory["text"]},
        memory["created_at"],
        memory["updated_at"],
        memory.get("relevance"),
    )
