"""The roles of a chat with an assistant, under the names that chat programs give them."""

USER_ROLES = frozenset({"user", "human"})
ASSISTANT_ROLES = frozenset({"assistant", "ai", "bot", "model"})
TOOL_ROLES = frozenset({"tool", "function"})
INSTRUCTION_ROLES = frozenset({"system", "developer"})
NO_PERSON_ROLES = ASSISTANT_ROLES | INSTRUCTION_ROLES | TOOL_ROLES
"""Roles of turns that no person writes."""
CHAT_ROLES = USER_ROLES | NO_PERSON_ROLES


def chat_role(value: object) -> str | None:
    """Returns a value as it is where it names a role of a chat, else None: `role` is a profession elsewhere."""
    name = value.strip() if isinstance(value, str) else ""
    return name if name.casefold() in CHAT_ROLES else None
