"""What notebook 7 shows: facts that a model reads in memories of a build, beside those of the rules."""

from dataclasses import dataclass

import polars as pl

from palimpsest.facts.fact import Fact
from palimpsest.facts.fact_tables import FactInputs, named_entities
from palimpsest.facts.lm_facts import INSTRUCTIONS, Extraction, LmExtractor, MemoryText
from palimpsest.lm.client import Ledger
from palimpsest.lm.settings import LmSettings
from palimpsest_eval.notebook.build_view import BuildView

_TABLES = ("memories", "mentions", "entities", "speakers", "clause_facts")


@dataclass(frozen=True)
class ExtractionTrial:
    """A model's facts of some memories.

    Attributes:
        memories: what was read.
        found: the model's facts.
        names: of entities and speakers, by id.
        by_rules: the facts of the same memories in the build: text, fact.
    """

    memories: tuple[MemoryText, ...]
    found: Extraction
    names: dict[str, str]
    by_rules: pl.DataFrame

    def table(self) -> pl.DataFrame:
        """Returns the model's facts: text, fact, confidence."""
        rows = [
            (m.text, self._describe(fact), fact.confidence)
            for m in self.memories
            for fact in self.found.facts.get(m.memory_id, ())
        ]
        return pl.DataFrame(rows, schema={"text": pl.String, "fact": pl.String, "confidence": pl.Float64}, orient="row")

    def figures(self) -> pl.DataFrame:
        """Returns what was read, found, dropped and paid."""
        rows = [
            ("memories", len(self.memories)),
            ("facts", sum(map(len, self.found.facts.values()))),
            ("facts by rules", self.by_rules.height),
            ("calls", self.found.run.calls),
            ("cost", self.found.run.cost),
            *((f"dropped: {reason}", n) for reason, n in sorted(self.found.dropped.items())),
            *((f"not read: {reason}", n) for reason, n in sorted(self.found.run.without_answer.items())),
        ]
        return pl.DataFrame(rows, schema={"what": pl.String, "figure": pl.Float64}, orient="row")

    def compare(self, edited: "ExtractionTrial") -> pl.DataFrame:
        """Returns the facts that one of two trials has: text, fact, which."""
        columns = ["text", "fact"]
        mine, other = self.table().select(columns), edited.table().select(columns)
        gone = mine.join(other, on=columns, how="anti").with_columns(only=pl.lit("before the edit"))
        new = other.join(mine, on=columns, how="anti").with_columns(only=pl.lit("after the edit"))
        return pl.concat([gone, new]).sort(columns)

    def _describe(self, fact: Fact) -> str:
        filler = self.names.get(fact.object_entity, fact.value)
        return f"{self.names.get(fact.subject, fact.subject)} | {'not ' * fact.is_negated}{fact.predicate} | {filler}"


def try_extraction(
    view: BuildView,
    settings: LmSettings,
    ledger: Ledger,
    count: int,
    instructions: str = INSTRUCTIONS,
    max_cost: float | None = None,
) -> ExtractionTrial:
    """Reads the first memories of a build, by id, that name an entity.

    Args:
        view: the build.
        settings: the model.
        ledger: where answers are stored.
        count: of memories.
        instructions: of the program.
        max_cost: the most that the calls may cost; None means no limit.
    """
    memories, names, by_rules = _memories_to_read(view, count)
    found = LmExtractor(settings, ledger, max_cost, instructions).extract(memories)
    return ExtractionTrial(memories, found, names, by_rules)


def facts_by_rules(view: BuildView, count: int) -> pl.DataFrame:
    """Returns the build's facts of the memories that a trial would read: text, fact."""
    return _memories_to_read(view, count)[2]


def _memories_to_read(view: BuildView, count: int) -> tuple[tuple[MemoryText, ...], dict[str, str], pl.DataFrame]:
    tables = view.build.tables(_TABLES)
    named = named_entities(FactInputs(tables["memories"], tables["mentions"], tables["entities"]))
    rows = tables["memories"].filter(pl.col("memory_id").is_in(list(named))).sort("memory_id").head(count)
    texts = rows.select("memory_id", "text", "speaker").iter_rows()
    memories = tuple(MemoryText(i, text, named[i], speaker or "") for i, text, speaker in texts)
    names = {
        entity_id: name
        for table in ("entities", "speakers")
        for entity_id, name in tables[table].select("entity_id", "name").iter_rows()
    }
    names |= {m.named.speaker: m.speaker for m in memories if m.named.speaker and m.named.speaker not in names}
    stated = tables["clause_facts"].join(rows.select("memory_id", "text"), on="memory_id", how="inner")
    target = pl.col("object_id").replace_strict(names, default=None, return_dtype=pl.String).fill_null(pl.col("value"))
    subject = pl.col("subject_id").replace_strict(names, default="", return_dtype=pl.String)
    fact = pl.concat_str([subject, pl.col("predicate"), target], separator=" | ", ignore_nulls=True)
    return memories, names, stated.select("text", fact=fact).sort("text", "fact")
