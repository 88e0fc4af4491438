"""Settings of the embedder, of language models, and of where batches are computed."""

from palimpsest.core.configuration.setting import Setting

EMBEDDER = (
    Setting(
        "embedder.name",
        "PALIMPSEST_EMBEDDER",
        "`minilm`",
        "embedder of homes that have none of their own ([embedders](../embedders.md))",
        directs=True,
    ),
    Setting(
        "embedder.url",
        "PALIMPSEST_EMBEDDER_URL",
        "none",
        "OpenAI-compatible server of `openai:MODEL`, up to and with `/v1`",
        directs=True,
    ),
    Setting(
        "embedder.key",
        "PALIMPSEST_EMBEDDER_KEY",
        "none",
        "key sent with each request; never logged or stored",
        is_secret=True,
    ),
    Setting(
        "embedder.price",
        "PALIMPSEST_EMBEDDER_PRICE",
        "0",
        "price of a million tokens, for the cost in the record of the stage `embeddings`",
        "amount",
    ),
    Setting(
        "embedder.jars",
        "PALIMPSEST_EMBEDDER_JARS",
        "the user's cache folder",
        "folder of the jar with bge-small-en-v1.5",
        "path",
    ),
)

RELATIONS = (
    Setting(
        "relations.changes",
        "PALIMPSEST_CHANGES",
        "`balanced`",
        "how readily a build says that a newer memory ends an older one: `careful`, `balanced` or `eager`; the measured"
        " rates of wrong ones are in [figures](../figures.md#changes-in-plain-words)",
        "choice",
        choices=("careful", "balanced", "eager"),
    ),
)

SEARCH = (
    Setting(
        "search.min_relevance",
        "PALIMPSEST_MIN_RELEVANCE",
        "1",
        "chance in per cent that a result is evidence for its question, from which a search returns it, where it has a"
        " share of .03 of the best one's; the best is returned in any case, and 0 returns as many as were wanted",
        "whole",
        0,
        100,
    ),
)

LM = (
    Setting(
        "lm.labeler",
        "PALIMPSEST_LABELER",
        "`offline`",
        "labeler of relations: `offline`, `dspy` or `cascade`",
        "choice",
        choices=("offline", "dspy", "cascade"),
        directs=True,
    ),
    Setting(
        "lm.server",
        "PALIMPSEST_LM",
        "none",
        "`MODEL@URL` of an OpenAI-compatible server, up to and with `/v1`",
        directs=True,
    ),
    Setting(
        "lm.key", "PALIMPSEST_LM_KEY", "none", "key sent with each request; never logged or stored", is_secret=True
    ),
    Setting(
        "lm.price",
        "PALIMPSEST_LM_PRICE",
        "`0,0`",
        "price of a million tokens read and written: `IN,OUT`; `--max-cost` needs it",
        "prices",
    ),
    Setting("lm.concurrency", "PALIMPSEST_LM_CONCURRENCY", "8", "requests at once", "whole", 1, 1000),
    Setting("lm.rpm", "PALIMPSEST_LM_RPM", "no limit", "requests per minute", "whole", 0, 1_000_000),
    Setting("lm.timeout_s", "PALIMPSEST_LM_TIMEOUT", "60", "seconds for one request", "amount"),
    Setting(
        "lm.attempts", "PALIMPSEST_LM_ATTEMPTS", "6", "attempts for one answer, the first included", "whole", 1, 100
    ),
    Setting(
        "lm.format",
        "PALIMPSEST_LM_FORMAT",
        "`text`",
        "form of an answer: `text`, or JSON that the server keeps to a schema, `json_object` or `json_schema` by what "
        "it knows ([local model](../local-model.md))",
        "choice",
        choices=("text", "json_object", "json_schema"),
    ),
    Setting(
        "lm.reranker",
        "PALIMPSEST_RERANKER",
        "`answers`",
        "reads the best candidates of each search: `answers`, the model that is shipped, of eight; `lm`, the model of "
        "`PALIMPSEST_LM`, or the folder or name of a cross-encoder, of 30; `none` ranks by scores alone",
        directs=True,
    ),
    Setting(
        "lm.reranker_max_cost",
        "PALIMPSEST_RERANKER_MAX_COST",
        "no limit",
        "what the reranker's calls of a language model may cost in one process",
        "amount",
    ),
    Setting(
        "lm.compressor",
        "PALIMPSEST_COMPRESSOR",
        "none",
        '`lm` lets searches with `compress="lm"` have the model of `PALIMPSEST_LM` pick the sentences of long results',
        "choice",
        choices=("lm",),
    ),
    Setting(
        "lm.compressor_max_cost",
        "PALIMPSEST_COMPRESSOR_MAX_COST",
        "no limit",
        "what those calls may cost in one process",
        "amount",
    ),
    Setting(
        "lm.summary_max_cost",
        "PALIMPSEST_SUMMARY_MAX_COST",
        "no limit",
        "what abstractive summaries may cost in one process",
        "amount",
    ),
)

BATCHES = (
    Setting(
        "batches.runner",
        "PALIMPSEST_BATCHES",
        "`local`",
        "where texts are embedded and pairs are labelled: `local`, in the process of the build, or `ray`, on a cluster "
        "([scale](../scale.md)); needs the extra `ray`",
        "choice",
        choices=("local", "ray"),
        directs=True,
    ),
    Setting(
        "batches.ray_address",
        "RAY_ADDRESS",
        "a Ray of this machine, as long as the build",
        "`HOST:PORT` of a Ray cluster that this machine is a node of, or `auto`",
        directs=True,
    ),
)
