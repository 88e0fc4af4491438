"""A small build of titled passages that name each other."""

from palimpsest.memories.form import context_inputs
from tests.query.made import memory, rows, tables

TEXTS = {
    "Port Elm": "Port Elm is a harbour on the coast. It was founded by Ada Quist.",
    "Ada Quist": "Ada Quist was a sailor. She was born in Varn.",
    "Varn": "Varn lies in the hills. Its river is the Sool.",
    "Sool": "The Sool is a short river. It freezes every winter.",
    "Harbour law": "A harbour may be closed by its founder. Coasts are public.",
    "Births": "A birth is registered where it takes place. Founders are registered too.",
    "Mills": "Mills grind corn. Some stand on a coast.",
    "Winter": "Rivers freeze in a cold winter. Harbours freeze seldom.",
}


def named(text):
    return [n for n in TEXTS if n in text]


def made(profile="full", **more):
    memories = [
        memory(f"m{i}", text, title=title, search_text=f"{title}\n{text}")
        for i, (title, text) in enumerate(TEXTS.items())
    ]
    mentions = [(m, n) for m in memories for n in sorted({m["title"], *named(m["text"])})]
    out = tables(memories, mentions=[(m["memory_id"], n) for m, n in mentions], **more)
    out["mentions"] = rows("mentions", *(_mention(m, n) for m, n in mentions))
    out["context_inputs"] = context_inputs(out["memories"], "graph", profile == "full")
    return out


def _mention(m, name):
    start = m["text"].index(name) if name in m["text"] else None
    about = {"memory_id": m["memory_id"], "entity_id": f"ana:{name}", "collection": "notes", "user_id": "ana"}
    return about | {"char_start": start, "char_end": None if start is None else start + len(name)}
