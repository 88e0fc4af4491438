# The handbook: every command a person or CI runs.
PYTHON ?= python3.11
BIN := .venv/bin
# Folders of ready wheels, where there are any; everything also installs from the registry alone.
LINKS := $(addprefix --find-links ,$(wildcard $(PIP_FIND_LINKS)))
HOME_DIR ?= data/home
# Imported once at install, so that their bytecode is written: all of it would take minutes, and uv compiles none.
COMPILED := palimpsest.definitions, palimpsest_eval.runs.judge_build, palimpsest.neo4j_graph.published_graph, sentence_transformers, \
  sklearn.linear_model, spacy, dagster_webserver.cli, dspy, neo4j

# Test processes share the processors: several threads in each only wait for one another. A third of the time a test waits for
# a server or a process, so that three finish sooner than two on two processors.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 POLARS_MAX_THREADS=1 \
  $(BIN)/python -m pytest -n 3 --dist loadscope --no-loadscope-reorder
FAULTS := tests/chaos tests/build/test_damaged_files.py tests/build/test_repair.py tests/build/test_upgrade.py tests/build/test_backup.py tests/relations/test_lm.py \
  tests/neo4j_graph/test_faults.py tests/neo4j_graph/test_survival.py

.PHONY: build test test-quick chaos slow browser clients dev lint docs docs-site labeler suites bench-peers image clean

build: .venv/.installed        ## install, build the demo corpus, pass the gate, publish, show one answer
	$(BIN)/palimpsest build --home $(HOME_DIR)
	$(BIN)/palimpsest query "When do the weekly releases go out now?" --home $(HOME_DIR)

test: .venv/.installed         ## the default tests
	$(PYTEST)

test-quick: .venv/.installed   ## a minute, for daily work: the parts of which no test starts a build, a server or a process
	$(PYTEST) $(addprefix tests/,core text chunks facts formation data entities index nodes relations test_docs.py test_layers.py)

chaos: .venv/.installed        ## kills at every step, full disk, damaged files, failing servers, random sequences; an hour
	CHAOS_SECONDS=300 $(PYTEST) -m "" $(FAULTS)

slow: .venv/.installed         ## the other slow tests, an hour
	$(PYTEST) -m "slow and not suite and not browser and not node" $(addprefix --ignore=,$(FAULTS))

browser: .venv/.installed      ## the pages in Debian's Chromium (packages chromium, chromium-driver), and axe; needs npm
	$(BIN)/python -m pytest -m browser

clients: .venv/.installed      ## a TypeScript client and recipe of the service, made and compiled; needs node and the npm registry
	$(BIN)/python -m pytest -m node

dev: .venv/.installed          ## the Dagster UI on the same home, http://127.0.0.1:3000
	$(BIN)/palimpsest dev --home $(HOME_DIR)

lint: .venv/.installed         ## style and types
	$(BIN)/lint-imports --cache-dir .venv/layers
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

docs: .venv/.installed         ## write the generated parts of docs/reference
	$(BIN)/python -m palimpsest.export.export_schema > docs/reference/export.schema.json
	$(BIN)/python -m cogapp -r docs/reference/*.md docs/sources.md

docs-site: .venv/.installed    ## the documentation as a site, build/site; a warning or a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict  # the theme's notice of its successor is no warning of ours

labeler: .venv/.installed      ## fit the candidates' maps, train chooser and judge, a day on two cores: BASE=all-mpnet-base-v2's folder TEMPORAL=folder of Temporal NLI
	test -d "$(BASE)" && test -d "$(TEMPORAL)"
	$(BIN)/python -m palimpsest_eval.training.change_vectors
	$(BIN)/python -m palimpsest_eval.training.train_change_encoder --temporal "$(TEMPORAL)" --weights build/chooser.pt
	$(BIN)/python -m palimpsest_eval.training.train_change_encoder --base "$(BASE)" --frozen 6 --most 3 --bits 6 \
	  --rate .67 --temporal "$(TEMPORAL)" --weights build/judge.pt --out data/models/change_judge.onnx.gz
	$(BIN)/python -m palimpsest_eval.training.calibrate

suites: .venv/.installed       ## measure on ../shared/suites (or PALIMPSEST_SUITES)
	$(BIN)/python -m pytest -m suite

# One environment for each lock: their pins clash. Without its dependencies this project is importable there.
PEERS := $(basename $(notdir $(wildcard eval/palimpsest_eval/peers/locks/*.txt)))
PEERS_OUT ?= build/peers

bench-peers: .venv/.installed $(PEERS:%=.venv-peers/%/.installed)  ## other toolkits next to Palimpsest, on PALIMPSEST_SUITES; 45 minutes
	$(BIN)/python -m palimpsest_eval.peers.run_peers --out $(PEERS_OUT) $(PEERS_OPTIONS)

# Files are copied: some toolkits refuse to read a data file that is linked twice. NAME.overrides replaces pins of a toolkit.
.venv-peers/%/.installed: eval/palimpsest_eval/peers/locks/%.txt pyproject.toml
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-peers/$*
	$(BIN)/uv pip install --quiet --python .venv-peers/$*/bin/python --link-mode copy $(LINKS) \
	  $(addprefix --override ,$(wildcard $(<:.txt=.overrides))) -r $<
	$(BIN)/uv pip install --quiet --python .venv-peers/$*/bin/python --no-deps -e .
	touch $@

image:                         ## build the image of the Dockerfile and look into it; needs Docker
	docker build --tag palimpsest --build-arg PIP_EXTRA_INDEX_URL --build-arg PIP_FIND_LINKS= .
	docker run --rm palimpsest doctor
	docker compose config --quiet

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(LINKS) -c constraints.txt -e '.[dev]'
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -c "import $(COMPILED)"
	touch $@

clean:                         ## forget the environment and the demo home
	rm -rf .venv .venv-peers build $(HOME_DIR)
