"""Every quote can be found where it says it is: documents, chunks, memories, over all formats."""

import datetime as dt
import os
import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from palimpsest.pipeline.plan import make_plan, stage_context
from palimpsest.pipeline.run_stage import run_stage
from palimpsest.sources.readers.read_source import read_source
from palimpsest.sources.readers.registry import formats_by_suffix
from palimpsest.store.home import Home
from tests.small_corpus import write_notes
from tests.sources.samples import samples

FIXTURES = Path(os.environ.get("PALIMPSEST_SUITES") or "../shared/suites") / "parser_fixtures"
SPANS = 10_000
Quotes = dict[str, list[tuple[int, int, str]]]


def quotes(home: Home, corpus: Path) -> tuple[Quotes, dict[str, str], dict[str, str]]:
    """Builds up to the memories; returns document -> (start, end, quote), its text, and its format."""
    home.create()
    (name, folder), *_ = make_plan(home, [corpus]).collections.items()
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    part = replace(stage_context(home, name, folder), now=now)
    for stage in ("documents", "chunks", "notes", "memories"):
        run_stage(part, stage)
    texts = dict(part.table("document_texts").select("document_id", "text").iter_rows())
    formats = dict(part.table("documents").select("document_id", "media_type").iter_rows())
    found: Quotes = {}
    for table in ("chunks", "memories"):
        for document, *span in part.table(table).select("document_id", "char_start", "char_end", "text").iter_rows():
            found.setdefault(document, []).append(tuple(span))
    return found, texts, formats


def count_right(
    found: dict[str, list[tuple[int, int, str]]], texts: dict[str, str], formats: dict[str, str]
) -> Counter:
    """Draws spans inside quotes, the formats in turn, and compares each with the text that it points into."""
    chance = random.Random(7)
    by_format: dict[str, list[str]] = {}
    for document in sorted(found):
        by_format.setdefault(formats[document], []).append(document)
    right: Counter = Counter()
    for i in range(SPANS):
        format_ = sorted(by_format)[i % len(by_format)]
        document = chance.choice(by_format[format_])
        start, end, quote = chance.choice(found[document])
        first = chance.randrange(len(quote))
        last = chance.randint(first + 1, len(quote))
        same = texts[document][start + first : start + last] == quote[first:last] and len(quote) == end - start
        right[format_, same] += 1
    return right


@pytest.mark.parametrize("unit", ["chunk", "statement", "turn"])
def test_ten_thousand_random_spans_over_all_formats_hold_their_quotes(tmp_path, unit: str) -> None:
    corpus = write_notes(tmp_path / "corpus", {}, unit=unit)
    for name, data in samples().items():
        (corpus / "notes" / name).write_bytes(data)
    found, texts, formats = quotes(Home(tmp_path / "home"), corpus)
    right = count_right(found, texts, formats)
    assert {format_ for format_, _ in right} == set(formats.values()) and len(set(formats.values())) >= 13
    assert sum(right.values()) == SPANS and {same for _, same in right} == {True}


def test_there_is_a_sample_of_every_format_that_can_be_read(tmp_path) -> None:
    read = set()
    for name, data in samples().items():
        (tmp_path / name).write_bytes(data)
        documents = read_source(tmp_path / name, name).documents
        read.add(formats_by_suffix()[Path(name).suffix])
        own = [d for d in documents if "#quoted-" not in d.uri]
        assert own and all("Zo" in d.text or "zoe" in str(d.user_id) for d in own), name
    assert read == set(formats_by_suffix().values())


@pytest.mark.suite
@pytest.mark.parametrize("unit", ["chunk", "statement"])
def test_ten_thousand_random_spans_over_the_parser_fixtures_hold_their_quotes(tmp_path, unit: str) -> None:
    if not FIXTURES.is_dir():
        pytest.skip(f"{FIXTURES} is not here; PALIMPSEST_SUITES names the suites")
    corpus = write_notes(tmp_path / "corpus", {}, unit=unit)
    shutil.copytree(FIXTURES, corpus / "notes/fixtures")
    found, texts, formats = quotes(Home(tmp_path / "home"), corpus)
    right = count_right(found, texts, formats)
    assert sum(right.values()) == SPANS and {same for _, same in right} == {True}
