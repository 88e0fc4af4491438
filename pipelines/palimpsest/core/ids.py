"""Content-addressed ids: 16 hex digits of blake2b, so that the same content has the same id on every machine."""

import hashlib

from palimpsest.core.scopes import scope_parts


def content_id(*parts: str | int | None) -> str:
    """Returns 16 hex digits for the parts, each length-prefixed so that no two lists of parts collide by joining."""
    h = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = b"" if part is None else str(part).encode("utf-8", "surrogatepass")
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.hexdigest()


def text_hash(text: str) -> str:
    """Returns the 32-hex-digit key of an embedded text in the shared embedding store."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def entity_id(collection: str, user_id: str, project_id: str, key: str) -> str:
    """Returns the id of the entity that a name's key denotes in a scope while it is not merged with another."""
    return content_id("entity", *scope_parts(collection, user_id, project_id), key)
