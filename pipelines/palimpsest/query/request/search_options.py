"""The keyword arguments of a search."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TypedDict

from palimpsest.query.request.arguments import When
from palimpsest.query.request.strategies import Weights


class SearchOptions(TypedDict, total=False):
    """The keyword arguments of a search, with their defaults.

    Attributes:
        k (10): how many memories at most, 1 to 1000.
        all_results (False): return k results, also those that are hardly evidence; the context is without them.
        hops (1): links to follow from the best, 0 to 2; `flat` follows none.
        strategy ("auto"): a name of `STRATEGIES`, or auto: what the build chose for the collection, with the
            weights that the collection's settings give; or `Weights`, which are taken as they are.
        as_of: answer from what was current then; a date alone means the end of that day. Without it, a question
            that asks for it in words (`as of May 2026`, `what did we believe on 3 March`) is answered so.
        history (False): superseded versions are candidates too.
        type: memory type to stay in; one of `types`.
        types: memory types, any of them.
        tag: a tag that memories must have; one of `tags`.
        tags: tags, any of which memories must have. `where` can require all of several.
        where: what the fields of a memory and of its document's metadata must satisfy, such as
            `category = "academic" and stressor = true`: see `palimpsest.query.request.parse_where`.
        accessed_within: how long ago memories were last among the results of a search of this home, at most: a
            timedelta, or 12h, 30d or 4w.
        min_score: least cosine of a memory's best window with the question, -1 to 1: results below it are left
            out. Cosines of the same embedder compare between questions, scores of the ranking do not.
        since: earliest observed_at; a date alone means its start by each speaker's own clock.
        until: latest observed_at; a date alone means its end by each speaker's own clock.
        project: search this project of the scope's user too; the scope itself is the user's general memory.
        session: session to stay in.
        now: when the question is put: only what is valid then is a candidate, and `last week` is counted from it,
            or from `as_of`; without either only the words are searched for.
        budget_tokens (1200): of the context, by the embedder's count, citations included.
        explain (False): say of each memory why it is there.
        include_hidden (False): serve memories marked `user_visible: false` too.
        include_pii (False): serve memories marked `pii: true` too.
        turns (()): what was written before, oldest first: texts, or messages with `role` and `content`. The last
            five are read. A follow-up question takes from them what it leaves open; a complete one is searched as
            it is. They are stored nowhere.
        brief (""): what the task is about. Among the candidates, memories that fit it rank a little higher.
        paths (()): files of the task. Memories of sources with such a path, or in its folder, rank a little
            higher.
        abstain (False): return no memories where none is likely to hold an answer: where the highest relevance is
            below .1.
        compress ("words"): what picks the sentences of long results where the context cannot hold all results:
            the words of the question, or `lm`, the language model that the home was opened with.
        sources ("short"): how the context cites: `short`, by number, with a line for each document; `full`, by id, with
            the place of each memory; `none`, by number, without sources. The result's `citations` has the ids.
        subgraph (False): return the nodes, edges and facts of the results and how they relate, and add relations
            and facts to the context as short lines, in the tokens that its memories leave.
        tiers (()): tiers to stay in, any of them: `personal`, the user's general memory; `project`, that of
            projects; `task`, memories of type task, which are in no other tier.
        task (""): uri or title of a source of type task in the scopes: its text leads the context, in half of its
            budget at most and whatever the other filters are, and memories like it rank a little higher.
        include_pending (False): also search texts of the inbox that no build has formed yet, by words, in the same
            scopes: the result's `pending`, and lines at the end of the context, in a quarter of its budget.
        narrow, node_types, node_where, depth: of the strategy hierarchical; see `palimpsest.query.request.node_search`.
    """

    k: int
    all_results: bool
    hops: int
    strategy: str | Weights
    as_of: When | None
    history: bool
    type: str | None
    types: Sequence[str]
    tag: str | None
    tags: Sequence[str]
    where: str | None
    accessed_within: dt.timedelta | str | None
    min_score: float | None
    since: When | None
    until: When | None
    project: str | None
    session: str | None
    now: When | None
    budget_tokens: int
    explain: bool
    include_hidden: bool
    include_pii: bool
    turns: Sequence[str | Mapping[str, str]]
    brief: str
    paths: Sequence[str]
    abstain: bool
    compress: str
    sources: str
    subgraph: bool
    narrow: bool
    node_types: Sequence[str]
    node_where: str | None
    depth: int
    include_pending: bool
    tiers: Sequence[str]
    task: str
