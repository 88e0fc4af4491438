"""What a page of the web may not state: whose its text is, and that it replaces other documents."""

from dataclasses import replace

from palimpsest.core.errors import Rejected
from palimpsest.sources.records.extracted import Extraction, ReadResult
from palimpsest.sources.records.scope import Scope

_OTHER_OWNER = "states a user_id or project_id of its own; left out: a page of the web belongs to whoever fetched it"
_REPLACES = "states that it replaces or needs other documents; ignored for a page of the web"


def restrict_to_owner(result: ReadResult, owner: Scope, defaults: Scope) -> ReadResult:
    """Returns what was read of a page without documents of another user or project, and without stated relations.

    Args:
        result: of reading the page.
        owner: user and project for whom it was fetched.
        defaults: user and project of documents that state none.
    """
    if isinstance(result, Rejected):
        return result
    kept, problems = [], dict.fromkeys(result.problems)
    for document in result.documents:
        stated = Scope(document.user_id, document.project_id).or_else(defaults)
        if (stated.user_id, stated.project_id) != (owner.user_id, owner.project_id):
            problems[_OTHER_OWNER] = None
            continue
        if document.relations:
            problems[_REPLACES] = None
            document = replace(document, relations=())
        kept.append(document)
    if result.documents and not kept:
        return Rejected(_OTHER_OWNER)
    return Extraction(tuple(kept), tuple(problems), result.left_out)
