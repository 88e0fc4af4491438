"""What processes of builders have when they are forked: modules, and the parser, whose loading takes seconds.

No sessions and no threads: they would not survive the fork.
"""

import bm25s  # noqa: F401

from palimpsest.index import write_index  # noqa: F401
from palimpsest.text.parse import parse_texts
from tests.store.remote import killed_builder  # noqa: F401

list(parse_texts(["The parser is loaded."]))
