"""What notebook 6 judges: the golden questions of a collection with the contexts that a build packs for them."""

from palimpsest.query.reader import open_index
from palimpsest.store.home import data_folder
from palimpsest_eval.golden.build_tables import collection_tables
from palimpsest_eval.golden.questions import golden_path
from palimpsest_eval.golden.search_golden import search_golden
from palimpsest_eval.notebook.build_view import BuildView
from palimpsest_eval.ragas.samples import RagasSample, golden_samples
from palimpsest_eval.runs.golden_suite import golden_set_of


def judged_contexts(view: BuildView, collection: str) -> list[RagasSample]:
    """Returns a sample for each answerable golden question of a collection."""
    golden = golden_set_of(view.build, golden_path(data_folder(), collection))
    with open_index(view.build.index) as reader:
        return golden_samples(search_golden(reader, golden, collection_tables(view.tables, collection)))
