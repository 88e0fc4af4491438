"""Maps the folders of this project to one package: `pipelines` is `palimpsest`, `eval` is `palimpsest.eval`.

A top-level `pipelines` or `eval` would collide with folders that many Dagster projects have.
"""

from setuptools import find_packages, setup

CODE = {"palimpsest": "pipelines", "palimpsest.eval": "eval"}
# The demo corpus with its questions and baselines, the pairs that the labeler is trained from, programs for language
# models, the notebooks.
DATA = {
    "palimpsest.data.baselines": "data/baselines",
    "palimpsest.data.corpora": "data/corpora",
    "palimpsest.data.golden": "data/golden",
    "palimpsest.data.models": "data/models",
    "palimpsest.data.programs": "data/programs",
    "palimpsest.notebooks": "notebooks",
}
MODULES = [
    name for package, folder in CODE.items() for name in (package, *(f"{package}.{p}" for p in find_packages(folder)))
]

setup(
    package_dir=CODE | DATA,
    packages=[*MODULES, *DATA],
    package_data={
        "palimpsest.neo4j_graph.server": ["jars.lock"],
        "palimpsest.memories.embedders": ["bge.lock"],
        "palimpsest.eval.report": ["templates/*"],
        "palimpsest.serve.page": ["jars.lock", "static/**/*"],
        **{name: ["**/*"] for name in DATA},
    },
)
