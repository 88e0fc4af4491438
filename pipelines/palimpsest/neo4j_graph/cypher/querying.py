"""Cypher of queries: each reads one scope of one load number, and returns whether that number is still kept."""

from palimpsest.neo4j_graph.model import CLOSED, VectorSpace
from palimpsest.query.request.types import MEMORY_TIMES, STORED_FIELDS

_VISIBLE = "m.since <= $number AND m.until > $number"
SCOPE = "{home_id: $home, collection: $collection, user_id: $user, project_id: $project}"
INSIDE = "{0}.collection = $collection AND {0}.user_id = $user AND {0}.project_id = $project"


# Numbers start again in a home that was erased, or on a new server: `begun` is another one then.
_KEPT = "h.oldest <= $number AND coalesce(h.begun, '') = $begun"


def with_kept(found: str) -> str:
    """Ends a read: collecting is a barrier, so that the number is looked up only after everything was read."""
    return f"""WITH collect({found}) AS found
OPTIONAL MATCH (h:PalimpsestHome {{home_id: $home}}) RETURN found, coalesce({_KEPT}, false) AS kept"""


SERVED = """
MATCH (h:PalimpsestHome {home_id: $home}) WHERE h.published > 0
MATCH (b:PalimpsestBuild {home_id: $home, number: h.published})
RETURN b.number AS number, b.build_id AS build_id, b.collections AS collections, b.scopes AS scopes,
  b.vector_index AS vector_index, b.format AS format, coalesce(h.begun, '') AS begun"""
SHOWN_LOAD = """
MATCH (h:PalimpsestHome {home_id: $home}) WHERE h.published > 0
RETURN h.published AS number, coalesce(h.begun, '') AS begun"""
STILL_KEPT = f"MATCH (h:PalimpsestHome {{home_id: $home}}) RETURN {_KEPT} AS kept"
SCOPE_STATS = """
MATCH (s:PalimpsestScopeStatsRow {home_id: $home, scope_id: $scope_id}) WHERE s.since <= $number AND s.until > $number
RETURN s.data AS data, s.buckets AS buckets"""
POSTINGS = """
MATCH (p:PalimpsestPostingsRow {home_id: $home})
WHERE p.postings_id IN $ids AND p.since <= $number AND p.until > $number
""" + with_kept("p.data")
BLOCKS = """
MATCH (b:PalimpsestVectorBlockRow {home_id: $home})
WHERE b.block_id IN $ids AND b.since <= $number AND b.until > $number
RETURN b.block_id AS id, b.data AS data"""
_ARRAYS = """
MATCH (a:PalimpsestScopeArraysRow {home_id: $home})
WHERE a.arrays_id IN $ids AND a.since <= $number AND a.until > $number
"""
PART = _ARRAYS + "RETURN a.data AS data"
SENTENCES = _ARRAYS + with_kept("[a.arrays_id, a.data]")
OWN_CLOCK = "m.observed_at + duration({minutes: coalesce(m.utc_offset, 0)})"
"""When a memory was observed by its speaker's own clock, as if that were UTC."""
CONDITIONS = {
    "session": "m.session_id = $session",
    "types": "m.type IN $types",
    "tags": "any(tag IN m.tags WHERE tag IN $tags)",
    "since": "{observed_at} >= $observed_since",
    "until": "{observed_at} <= $observed_until",
    # A memory that was retired on an unknown day is left out, and one without a date before the home knew it.
    "as_of": "(coalesce(m.valid_from, m.known_from) IS NULL OR coalesce(m.valid_from, m.known_from) <= $as_of) AND "
    "(m.valid_until > $as_of OR (m.valid_until IS NULL AND m.is_latest))",
    "now": "(m.valid_from IS NULL OR m.valid_from <= $now) AND (m.valid_until IS NULL OR m.valid_until > $now)",
    "clock": "(m.retention_until IS NULL OR m.retention_until > $clock)",
}
"""Each filter's condition; the parameter has the filter's name, except where that name means a load number."""
LEFT_OUT = {
    "hidden": "(m.user_visible IS NULL OR m.user_visible = true)",
    "pii": "(m.pii IS NULL OR m.pii = false)",
}
LATEST = "m.is_latest = true"


def candidates(conditions: tuple[str, ...]) -> str:
    """Returns the statement that finds the ids of a scope's memories that pass some of `CONDITIONS`."""
    where = " AND ".join((_VISIBLE, "m.is_latest IS NOT NULL", *conditions))
    return f"MATCH (m:PalimpsestMemoryRow {SCOPE}) WHERE {where} {with_kept('m.memory_id')}"


_COSINES = """
WITH m, CASE WHEN m.windows = 0 THEN [] ELSE
  COLLECT { MATCH (w:PalimpsestWindowRow)-[:WINDOW_OF|PALIMPSEST_CLOSED]->(m)
    RETURN vector.similarity.cosine(w.embedding, $vector) } END AS others
WITH m.memory_id AS id, reduce(best = vector.similarity.cosine(m.embedding, $vector), s IN others |
  CASE WHEN s > best THEN s ELSE best END) * 2 - 1 AS cosine
""" + with_kept("[id, cosine]")


def nearest(space: VectorSpace, conditions: tuple[str, ...]) -> str:
    """Returns the statement that takes candidates from the vector index, adds given ones, and scores all exactly.

    The index alone finds about 0.7 of the true best five: it proposes `$wide`, and exact cosines decide.
    """
    latest = "AND hit.is_latest = true" if LATEST in conditions else ""
    where = " AND ".join((_VISIBLE, *conditions))
    return f"""CYPHER 25
CALL () {{
  MATCH (hit:{space.label})
  SEARCH hit IN (VECTOR INDEX {space.index} FOR $vector WHERE hit.home_id = $home
    AND hit.collection = $collection AND hit.user_id = $user AND hit.project_id = $project {latest}
    AND hit.since <= $number AND hit.until > $number LIMIT $wide) SCORE AS score
  RETURN hit.memory_id AS wanted
  UNION
  UNWIND $ids AS wanted RETURN wanted
}}
WITH DISTINCT wanted
MATCH (m:PalimpsestMemoryRow {{home_id: $home, memory_id: wanted}})
WHERE {INSIDE.format("m")} AND {where}
{_COSINES}"""


COSINES = f"""CYPHER 25
UNWIND $ids AS wanted
MATCH (m:PalimpsestMemoryRow {{home_id: $home, memory_id: wanted}})
WHERE {INSIDE.format("m")} AND {_VISIBLE}
{_COSINES}"""
_FROM = f"""
UNWIND $ids AS wanted
MATCH (s:PalimpsestMemoryRow {{home_id: $home, memory_id: wanted}})
WHERE {INSIDE.format("s")} AND s.since <= $number AND s.until > $number"""
LIVE = "{0}.since <= $number AND ({0}.until IS NULL OR {0}.until > $number)"
PLACE = ("document_id", "uri", "document_title", "ordinal", "page", "char_start", "char_end")
"""Fields of a memory that its document's revision has, in the order in which MEMORIES returns them after the id."""
# The driver takes longer to make a time with a zone than the server to find the memory: times are microseconds.
_FIELDS = ", ".join(
    f"{name}: s.{name}.epochSeconds * 1000000 + s.{name}.microsecond" if name in MEMORY_TIMES else f".{name}"
    for name in STORED_FIELDS
    if name not in PLACE
)
# A revision's list of memories is searched once for all that are wanted of it; one whose memories are all in another
# version has none.
MEMORIES = f"""{_FROM}
OPTIONAL MATCH (s)-[f:FROM|{CLOSED}]->(d:PalimpsestDocumentRow)
WHERE {LIVE.format("f")} AND d.since <= $number AND d.until > $number
WITH d, collect(s {{{_FIELDS}}}) AS memories, collect(s.memory_id) AS wanted
OPTIONAL MATCH (d)<-[:REVISION_OF|{CLOSED}]-(v:PalimpsestRevisionRow)
WHERE v.since <= $number AND v.until > $number
WITH memories, collect([i IN range(0, coalesce(size(v.memory_ids), 0) - 1) WHERE v.memory_ids[i] IN wanted |
  [v.memory_ids[i], v.document_id, d.uri, v.title, v.ordinals[i], v.pages[i], v.starts[i], v.ends[i]]]) AS revisions
{with_kept("[memories, revisions]")}"""
OBSERVED = f"""
MATCH (m:PalimpsestMemoryRow {SCOPE}) WHERE {_VISIBLE} AND m.is_latest IS NOT NULL AND m.observed_at IS NOT NULL
WITH [min(m.observed_at), max(m.observed_at)] AS both
{with_kept("both")}"""
