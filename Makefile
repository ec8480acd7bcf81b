# Everything a person or CI calls. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tidemark/tools
N ?= 300000

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Run the main job here: Kafka to MongoDB, killed in the middle, resumed. N=records, SERVE=1 stays up
	@go run ./local/demo -n $(N) $(if $(SERVE),-serve)

.PHONY: test
test: ## Every test. Real mongod and Firestore emulator where they can be had; REQUIRE_REAL=1 makes them a must
	go vet ./...
	@set -o pipefail; go test -json -shuffle=on ./... | go run ./local/testsum

.PHONY: race
race: ## The tests under the race detector, without those that only wait for real parts
	go test -race -short -shuffle=on -timeout 20m ./...

.PHONY: faults
faults: ## The fault table: each effect of a run, each way it can go wrong
	go test -count=1 -v -run 'TestRun_EveryFault' ./shared/pull

.PHONY: mutate
mutate: ## Put deliberate bugs into the run; each must be caught by its tests
	go run ./local/mutate

.PHONY: fuzz
fuzz: ## Fuzz every decoder, FUZZTIME each (20s)
	@set -e; for target in $$(grep -rhoE 'func Fuzz[A-Za-z]+' --include=*_test.go shared functions | sed 's/func //' | sort -u); do \
	  for dir in $$(grep -rlE "func $$target\(" --include=*_test.go shared functions | xargs -n1 dirname | sort -u); do \
	    echo "$$dir $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(or $(FUZZTIME),20s) -fuzzminimizetime 20x ./$$dir; done; done

.PHONY: bench
bench: ## Move N=1000000 records from Apache Kafka into a real mongod, beside the ceiling, in PAIRS=5 pairs
	go run ./local/bench -n $(if $(filter command line environment,$(origin N)),$(N),1000000) -pairs $(or $(PAIRS),5)

.PHONY: e2e
e2e: ## The main job on Apache Kafka, MongoDB and the Firestore emulator, killed, thrown away and refused. PART=kill for one
	go run ./local/e2e $(if $(PART),-part $(PART))

.PHONY: emulator
emulator: ## Serve the functions here and call them by schedule: CONFIG=pipeline.yaml PORT=8080 SCHEDULE='* * * * *'
	@go run ./local/emulator -config '$(CONFIG)' $(if $(PORT),-port $(PORT)) $(if $(SCHEDULE),-schedule '$(SCHEDULE)')

.PHONY: docs
docs: ## Write docs/config.md from the form of the configuration
	go run ./local/configdoc docs/config.md

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## Lint, as CI does
	$(TOOLS)/golangci-lint run ./...
	go mod tidy -diff
	cd local/tools && go mod tidy -diff

.PHONY: vuln
vuln: ## Known vulnerabilities in what the module calls
	cd local/tools && go tool -C . govulncheck -C ../.. ./...

$(TOOLS)/golangci-lint: local/tools/go.mod local/tools/go.sum
	@mkdir -p $(TOOLS)
	cd local/tools && go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: ci
ci: ## What CI runs
	.ci/run
