"""CSV and its relatives: the delimiter is the one that gives the rows the same number of columns."""

import csv
from collections import Counter
from itertools import islice

from palimpsest.core.errors import Rejected
from palimpsest.sources.extracted import Extraction, Source, limit_problems
from palimpsest.sources.readers.chat_json import read_chats
from palimpsest.sources.readers.chat_programs import parse_table_chat
from palimpsest.sources.readers.encodings import decode
from palimpsest.sources.readers.text_builder import TableLimits, TextBuilder, add_table
from palimpsest.store.collection_config import Limits

_DELIMITERS = ",;\t|"
_SAMPLE_ROWS, _SAMPLE_CHARS = 50, 200_000


def read_csv(source: Source, limits: Limits) -> Extraction:
    """Reads a table of text in any common encoding and with any common delimiter; messages of Discord are turns.

    Rows of another length than most are kept as they are; `metadata.columns` is the usual one.

    Raises:
        Rejected: binary, unknown encoding, empty, too long or of too many rows.
    """
    text = decode(source.data, limits)
    delimiter = "\t" if source.suffix == ".tsv" else _delimiter(text)
    csv.field_size_limit(limits.max_chars)
    count, rows = TableLimits(limits), list[list[str]]()
    try:
        for row in csv.reader(_lines(text), delimiter=delimiter, skipinitialspace=True):
            if any(c and not c.isspace() for c in row):
                count.count(len(row))
                rows.append(row)
    except csv.Error as e:
        raise Rejected(f"corrupt CSV after row {len(rows)}: {e}; export it again") from None
    if not rows:
        raise Rejected("empty: the table holds no row")
    if (chat := parse_table_chat(rows, source.names)) is not None:
        return read_chats(source, [chat], [], limits)
    widths = Counter(map(len, rows))
    usual = max(widths, key=lambda w: (widths[w], w))
    builder = TextBuilder(limits.max_chars)
    problems = add_table(builder, rows, source.dates)
    media_type = "text/tab-separated-values" if delimiter == "\t" else "text/csv"
    document = builder.to_document(source, media_type, metadata={"rows": len(rows), "columns": usual})
    return Extraction((document,), limit_problems(problems, limits))


def _lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.split("\n")]


def _delimiter(text: str) -> str:
    sample = _lines(text[:_SAMPLE_CHARS])[: _SAMPLE_ROWS * 4]

    def agreement(delimiter: str) -> tuple[int, int]:
        try:
            reader = csv.reader(sample, delimiter=delimiter, skipinitialspace=True)
            widths = Counter(len(r) for r in islice(reader, _SAMPLE_ROWS) if r)
        except csv.Error:
            return (0, 0)
        return max(((n, w) for w, n in widths.items() if w > 1), default=(0, 0))

    csv.field_size_limit(_SAMPLE_CHARS * 2)
    return max(_DELIMITERS, key=lambda d: (agreement(d), -_DELIMITERS.index(d)))
