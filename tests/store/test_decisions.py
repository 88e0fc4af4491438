from palimpsest.store.decisions import Decisions, tombstone


def test_what_was_attached_to_a_deleted_document_is_deleted_too() -> None:
    def hides(deleted: str, uri: str, session: str | None = None) -> bool:
        decisions = Decisions(tombstones=frozenset([tombstone("document", "notes", deleted)]))
        return decisions.hides_document("notes", "ana", uri, session, None)

    assert hides("a.json#s1", "a.json", "s1") and hides("a.json#s1", "a.json#s1#plan.txt", "s1")
    assert hides("a.eml#b.eml", "a.eml#b.eml#c.txt")
    assert not hides("a.json#s1", "a.json#s10#plan.txt", "s10") and not hides("a.json#s1", "a.json", "s10")
