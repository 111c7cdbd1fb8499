# The two commands are `make run` and `make test`; `make help` lists the rest. Each makes what it needs and says so.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run test test-gpu reliability lint format types contract generate check-generated schemas pictures app-pictures words noise score e2e-vllm e2e-gateways e2e-requests e2e-grafana wheel sbom advisories bench fuzz pins clean env-run env-test

RUN := .venv-run/bin
TEST := .venv-test/bin
off := 0 no false
given_only = $(subst $(comma), ,$(call given,ONLY))
comma := ,
given = $(if $(filter command,$(origin $1)),$($1))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: env-run ## watch a server: ENGINE=http://host:8000[,..] (without: a simulated one), ONCE=1 ends after the verdict
ifneq ($(filter-out $(off),$(ONCE)),)
	@# Exit codes 1 and 2 tell scripts that a cause leads or that nothing is certain; to make both are a finished job.
	@$(RUN)/llmvitals run $(if $(ENGINE),--engine '$(ENGINE)') --once $(ARGS) || test $$? -le 2
else
	@$(RUN)/llmvitals run $(if $(ENGINE),--engine '$(ENGINE)') $(ARGS)
endif

test: ## build the wheel and run every test on it: ARGS='-k name' narrows it down
	@scripts/test.sh $(ARGS)

test-gpu: env-test ## the reader of the NVIDIA driver and a short load on a real GPU: PAGES=folder keeps the pages
	PYTHONPATH=src:tests LLMVITALS_GPU=1 LLMVITALS_GPU_PAGES='$(call given,PAGES)' $(TEST)/pytest tests/gpu $(ARGS)

reliability: env-test ## run what breaks things, and write the table of docs/reliability.md anew
	PYTHONPATH=src LLMVITALS_WRITE_RELIABILITY=1 $(TEST)/pytest -n 2 --dist loadfile \
		$$(grep -rlw reliability tests --include='test_*.py') $(ARGS)

lint: env-test ## ruff: rules and format; hadolint: the Dockerfile
	$(TEST)/ruff check .
	$(TEST)/ruff format --check .
	@# It comes with the environment on Linux on x86_64.
	@if [ -x $(TEST)/hadolint ]; then echo '$(TEST)/hadolint exporters/Dockerfile'; $(TEST)/hadolint exporters/Dockerfile; \
		else echo 'left out: hadolint, which has no package for this machine'; fi

format: env-test ## ruff: mend what can be mended
	$(TEST)/ruff check --fix .
	$(TEST)/ruff format .

types: env-test ## mypy --strict
	$(TEST)/mypy --strict

contract: env-test ## imports run down the floors only
	PYTHONPATH=src $(TEST)/lint-imports

generate: env-run ## write dashboards/, alerts/, the support matrix and the verdicts shown anew
	$(RUN)/llmvitals generate
	$(RUN)/python tools/readme.py

check-generated: env-run ## fail when a generated file is not what the code makes
	$(RUN)/llmvitals generate --check

schemas: ## make the JSON Schemas anew, of Grafana's models (needs Node.js) and of custom resources: OUT=, CRDS= for other folders
	@scripts/schemas.sh '$(or $(call given,OUT),tests/fixtures/grafana-schemas)' '$(or $(call given,CRDS),tests/fixtures/kubernetes-schemas)'

pictures: env-run ## draw the pictures of docs/boards.md and the runbooks anew (needs prometheus): ONLY=names of boards and runbooks
	$(RUN)/python tools/pictures.py $(given_only)

app-pictures: env-test ## draw the pictures of docs/app.md anew (needs prometheus, chromium, chromium-driver): ONLY=names
	PYTHONPATH=src:. $(TEST)/python tools/app_pictures.py docs/img/app $(given_only)

words: env-run ## bring the translations of the app up to date, and list what has none
	$(RUN)/python tools/words.py --list

noise: env-run ## what the alerts say of 7 healthy days; renews docs/alerts.md: SEED=7 for other ones, DAYS=1 for fewer
	$(RUN)/llmvitals backtest --noise '$(or $(call given,DAYS),7)d' $(if $(call given,SEED),--seed '$(SEED)') --report docs/alerts.md $(ARGS)

score: env-run ## how often the triage is right, on simulated incidents; renews docs/accuracy.md: SEED=7 for other ones
	$(RUN)/llmvitals score $(if $(SEED),--seed '$(SEED)') --report docs/accuracy.md $(ARGS)

e2e-vllm: env-run ## loads on a real vLLM, recorded and scored: DIR=folder, LOADS=files; VENV=its environment, or URL= of one that runs
	$(if $(DIR),,$(error name a folder for environment, model and recordings: make e2e-vllm DIR=folder))
	@# Only what is given on the command line: an environment often has a VENV or a URL that is meant for something else.
	@VENV='$(call given,VENV)' URL='$(call given,URL)' MODEL='$(call given,MODEL)' e2e/record.sh '$(DIR)' $(LOADS)
	$(RUN)/llmvitals score '$(DIR)/recordings' $(ARGS)

e2e-gateways: env-run ## real gateways under load, failing and recovering, read and held against clients: DIR=folder, ONLY=names
	$(if $(DIR),,$(error name a folder for programs and pages: make e2e-gateways DIR=folder))
	$(RUN)/python e2e/gateways/run.py '$(DIR)' $(given_only)

e2e-requests: env-run ## a real vLLM behind the example gateway: what traces tell, held against clients: DIR=folder, ONLY=cases; VENV=
	$(if $(DIR),,$(error name a folder for environment, model and logs: make e2e-requests DIR=folder))
	@VENV='$(call given,VENV)' $(RUN)/python e2e/traces/run.py '$(DIR)' $(given_only)

e2e-grafana: env-run ## boards brought to a real Grafana and every panel asked: GRAFANA_URL=, PROMETHEUS_URL=, KEEP=1; GRAFANA_TOKEN from the environment
	$(if $(call given,GRAFANA_URL),,$(error name a server: make e2e-grafana GRAFANA_URL=http://localhost:3000))
	@PROMETHEUS_URL='$(call given,PROMETHEUS_URL)' KEEP='$(call given,KEEP)' $(RUN)/python e2e/grafana/run.py '$(GRAFANA_URL)'

wheel: env-test ## build the wheel into dist/
	@scripts/wheel.sh dist

sbom: env-test ## what the image installs, as CycloneDX, into build/sbom/: OUT=folder for another place
	@$(TEST)/python tools/sbom.py '$(or $(call given,OUT),build/sbom)'

advisories: env-test ## known vulnerabilities of what we install; says so where nobody could be asked
	@$(TEST)/python tools/advisories.py

bench: env-run ## measure: ONLY=name for one, SHORT=1 for a quick look
	$(RUN)/python -m bench $(if $(ONLY),--only '$(ONLY)') $(if $(filter-out $(off),$(SHORT)),--short) $(ARGS)

fuzz: env-test ## N=1000000 changed pages, then PAGES=300 changes of each seed by hypothesis: other ones each time; SEED=, FIRST= as printed
	cd tests && SEED='$(call given,SEED)' FIRST='$(call given,FIRST)' WORKERS='$(call given,WORKERS)' PYTHONPATH=../src:. \
		../$(TEST)/python -m support.fuzz_run '$(or $(call given,N),20000)'
	$(if $(call given,FIRST),,PYTHONPATH=src:tests LLMVITALS_FUZZ='$(or $(call given,PAGES),300)' $(TEST)/pytest tests/property/test_ingest_fuzz.py -n 2 \
		$(if $(call given,SEED),--hypothesis-seed='$(call given,SEED)') $(ARGS))

pins: ## write requirements/*.txt anew (needs uv)
	@scripts/pins.sh

clean: ## remove what these targets made
	rm -rf .venv-run .venv-test build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

env-run:
	@scripts/venv.sh .venv-run requirements/run.txt requirements/build.txt
	@scripts/editable.sh .venv-run

env-test:
	@scripts/venv.sh .venv-test requirements/run.txt requirements/build.txt requirements/test.txt
