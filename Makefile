# make check is what CI runs, but for two tests with software from npm. make help
# lists the rest.

GO ?= go
BIN := bin
COMMANDS := otm otm-create otm-update otm-injector otm-dispatcher otm-completion-detector

.PHONY: help
help: ## list what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build all commands into bin/, the way they are shipped
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/ $(addprefix ./cmd/,$(COMMANDS))

.PHONY: demo
demo: ## see the whole pipeline at work
	$(GO) run ./cmd/otm demo

.PHONY: test
test: ## all tests (about five minutes on two cores)
	$(GO) test ./...

# SQLite's own code is translated from C. The race detector would watch each byte of
# it, for a third of all time; the driver around it stays watched.
UNWATCHED = -gcflags='github.com/ncruces/go-sqlite3-wasm/...=-race=false -d=checkptr=0'

# For checks that stand beside make vet: test binaries link in half the time without what
# only a debugger reads.
QUICK = -vet=off -ldflags=-w

.PHONY: test-race
test-race: ## all tests, with the race detector (its processes need not wait at their end)
	GORACE=atexit_sleep_ms=0 $(GO) test -race $(UNWATCHED) $(QUICK) -timeout=20m ./...

.PHONY: check
check: fmt-check tidy-check vet lint vuln shellcheck release-check test-race ## what CI runs, but for the real gateway and web-api

.PHONY: fmt-check
fmt-check:
	@files=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$files" || { echo "gofmt would change:"; echo "$$files"; exit 1; }

.PHONY: tidy-check
tidy-check:
	$(GO) mod tidy -diff

# What is built for macOS here runs nowhere: its types are enough.
.PHONY: vet
vet:
	$(GO) vet ./...
	$(GO) run ./scripts/typecheck darwin

.PHONY: lint
lint:
	$(GO) tool staticcheck ./...

.PHONY: vuln
vuln:
	@sh scripts/vuln.sh

.PHONY: shellcheck
shellcheck:
	@sh scripts/shellcheck.sh

.PHONY: gateway-all
gateway-all: ## the tests with the real OpenClaw gateway, both versions (some minutes)
	@for version in 2026.9.6 2026.3.13; do \
		dir=$$(sh scripts/gateway.sh $$version | head -n 1) && test -n "$$dir" && \
		OTM_TEST_PARTS=1 OTM_TEST_GATEWAY=$$dir $(GO) test ./cmd/otm -run '^TestRealGateway$$' -count=1 -timeout=30m -v || exit 1; \
	done

.PHONY: store-all
store-all: ## the store's tests and the user stories, on a PostgreSQL that this starts and stops
	@sh scripts/postgres.sh sh -c '$(GO) test $(QUICK) ./core/store -count=1 && $(GO) test $(QUICK) ./cmd/otm -run Postgres -count=1'

# The walks, which take every place times every failure. Without this, a run takes
# one part of their cases (internal/crash/crashtest/part.go).
WALKS := Scripts|Year|BrokenAgent|CrashMatrix|KilledAtEachPoint|DiskFullAtEachWrite|PermissionLost|NoDescriptors|DamagedFiles|InotifyOverflow|FsckHints|ClockJumpsInBackoff|PowerFailure.*|CaseB13.*|CaseB46.*|OpenNewTogether|C34ManyEntries.*|Housekeep.*|LostAnswersThroughALife|.*EachPlace|.*WhereTheDiskFails

.PHONY: whole
whole: ## the walks with all their cases, many scripts of the model, and the soaks (hours)
	OTM_TEST_WHOLE=1 OTM_MODEL_RUNS=$${OTM_MODEL_RUNS:-300} $(GO) test ./... -run '^Test($(WALKS)|.*Model)' -count=1 -timeout=0
	OTM_TEST_PARTS=1 $(MAKE) store-all
	$(MAKE) soak

.PHONY: soak
soak: ## random kills, and faults of the board, under load, with PostgreSQL too (OTM_SOAK_KILLS, _FOR, _TASKS, _SHARE, _HANDS, see the tests)
	TMPDIR=$${TMPDIR:-/tmp} OTM_SOAK_KILLS=$${OTM_SOAK_KILLS:-1000} OTM_SOAK_TASKS=$${OTM_SOAK_TASKS:-10000} OTM_SOAK_SHARE=$${OTM_SOAK_SHARE:-100} OTM_SOAK_HANDS=$${OTM_SOAK_HANDS:-64} \
		sh scripts/postgres.sh $(GO) test ./cmd/otm ./core/store -run '^Test(Soak|ManyHands)' -count=1 -timeout=0 -v

.PHONY: fuzz
fuzz: ## each fuzz target for a while (FUZZTIME=30s)
	@sh scripts/fuzz.sh

.PHONY: web-api
web-api: ## the board's suite with Slack's own client for Node
	@sh scripts/web-api.sh

.PHONY: bench
bench: ## the figures of docs/performance.md
	$(GO) run ./scripts/bench
	TMPDIR=$${TMPDIR:-/tmp} $(GO) test ./internal/api -run '^$$' -bench API -benchtime 2000x
	TMPDIR=$${TMPDIR:-/tmp} $(GO) test ./internal/app ./internal/board ./pipeline/counter ./core/store -run '^$$' -bench 'Page|ItemsList|BenchmarkCreate|Load|IDs|Tasks|Moves'

.PHONY: lines
lines: ## the lines of the product, per package and in sum
	@sh scripts/lines.sh

.PHONY: cover
cover: ## which statements the tests reach
	$(GO) test -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -func=coverage.out | tail -n 1

.PHONY: install-check
install-check: ## install under a real systemd of its own, and look (needs root)
	@sh scripts/install-check.sh

.PHONY: release
release: ## the archives of a release in dist/
	@sh scripts/release.sh

.PHONY: release-check
release-check:
	@sh scripts/release.sh --check

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN) dist coverage.out
