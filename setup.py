"""Maps the folders of this project to one package: `pipelines` is `palimpsest`, `eval` is `palimpsest.eval`.

A top-level `pipelines` or `eval` would collide with folders that many Dagster projects have.
"""

from setuptools import find_packages, setup

FOLDERS = {"palimpsest": "pipelines", "palimpsest.eval": "eval"}

setup(
    package_dir=FOLDERS,
    packages=[
        name
        for package, folder in FOLDERS.items()
        for name in (package, *(f"{package}.{p}" for p in find_packages(folder)))
    ],
)
