"""Text files that may begin with front matter."""

from collections.abc import Callable

from palimpsest.sources.readers.common.clean_text import parse_name, title_from_uri
from palimpsest.sources.readers.common.document_time import check_dates, find_stated_time
from palimpsest.sources.readers.common.encodings import decode
from palimpsest.sources.readers.common.front_matter import check_fields, parse_relations, split_front_matter
from palimpsest.sources.readers.common.scope_fields import parse_scope
from palimpsest.sources.readers.common.text_builder import first_heading
from palimpsest.sources.records.extracted import ExtractedDocument, Extraction, Segment
from palimpsest.sources.records.source import Source, limit_problems
from palimpsest.store.limits import Limits


def read_text_document(
    source: Source,
    limits: Limits,
    media_type: str,
    find_segments: Callable[[str], list[Segment]],
    *,
    titled_by_heading: bool = False,
) -> Extraction:
    """Reads a text file in any common encoding; the text is what follows the front matter.

    Args:
        source: the file.
        limits: of the source.
        media_type: of the document.
        find_segments: returns the segments of the text.
        titled_by_heading: the first heading is the title where the front matter states none.

    Raises:
        Rejected: binary, unknown encoding, empty or too long, or its front matter names a user or project
            that cannot be used.
    """
    metadata, text, problems = split_front_matter(decode(source.data, limits), limits)
    relations, relation_problems = parse_relations(metadata, source.uri)
    problems += [*relation_problems, *check_fields(metadata), *check_dates(metadata, "front matter", source.dates)]
    scope = parse_scope(metadata)[0]
    segments = find_segments(text)
    heading = first_heading(segments) if titled_by_heading else None
    document = ExtractedDocument(
        uri=source.uri,
        media_type=media_type,
        text=text,
        title=parse_name(metadata.get("title")) or heading or title_from_uri(source.uri),
        user_id=scope.user_id,
        project_id=scope.project_id,
        session_id=scope.session_id,
        source_time=find_stated_time(metadata, source.dates),
        metadata=metadata,
        relations=relations,
        segments=tuple(segments),
    )
    return Extraction((document,), limit_problems(problems, limits))
