# What a developer types, and what continuous integration types. `make` alone
# explains itself: a target's help is the text behind its two hashes.

MODULE := github.com/setpoint-dev/setpoint

# The examples in the order in which the demo shows them: from the least on, and
# whatever is not in that order yet.
EXAMPLES := $(addprefix examples/,immortalcontainer rolling-set blue-green configmap-propagation service-per-pod crd-roles guitar exchangerate config-restart image-policy watcher)
EXAMPLES += $(filter-out $(EXAMPLES),$(patsubst %/setpoint.yaml,%,$(wildcard examples/*/setpoint.yaml)))

# One set of flags for everything: the go command keeps what it compiled by its
# flags, so that a vet with other flags than the build's compiles Kubernetes
# anew. Only the race detector needs cgo, and only the light module is raced. No
# binary keeps its DWARF, and a seventh of compiling is making it.
export CGO_ENABLED := 0
export GOFLAGS     := $(strip $(shell go env GOFLAGS 2>/dev/null) -trimpath -gcflags=all=-dwarf=false)

# The version is stamped when something is linked; it never causes linking.
VERSION  = $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  = -s -w -X $(MODULE)/internal/cli/command.version=$(VERSION)

# Everything in these folders but the tests ends up in a binary. The folders
# are listed too: their time changes when a file is added or taken away.
inputs = $(shell find $(1) \( -name testdata -prune \) -o \( -type d -o -type f -not -name '*_test.go' \) -print 2>/dev/null)
LIGHT_INPUTS := go.mod go.sum $(filter-out %_test.go,$(wildcard *.go)) $(call inputs,api hook internal controllers config cmd js python)
FULL_INPUTS  := $(LIGHT_INPUTS) $(call inputs,controlplane)

# A race build needs a C compiler. Without one the tests run all the same.
RACE := $(shell command -v cc >/dev/null 2>&1 && echo -race)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

##@ Use it

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: bin/setpoint bin/setpoint-controller ## Build bin/setpoint (with a control plane inside) and bin/setpoint-controller (what a cluster runs)

# SETPOINT=path names the full binary of a release: then nothing is compiled here.
# One in the environment, as in a shell of `setpoint dev`, is not meant.
GIVEN = $(if $(filter command%,$(origin SETPOINT)),$(SETPOINT))
RELEASED = $(patsubst ~/%,$(HOME)/%,$(GIVEN))

.PHONY: demo
demo: FIRST_LOOK := tools/first-look.sh
demo: need-python $(if $(GIVEN),check-binary,bin/setpoint) ## Boot a control plane, run all examples on it, show each at work; SETPOINT=path of a release's binary builds none
	'$(or $(RELEASED),bin/setpoint)' dev --process-logs bin/demo-logs $(SHOWN) -- sh examples/demo.sh $(SHOWN)

.PHONY: check-binary
check-binary:
	@tools/check-binary.sh '$(RELEASED)' '$(VERSION)'

# Without node, the examples whose hooks are JavaScript are left out; with a binary of a release those that are compiled.
SHOWN = $(filter-out $(if $(GIVEN),$(call written-in,main.go)) $(if $(shell command -v node),,$(call written-in,main.mjs)),$(EXAMPLES))
written-in = $(patsubst %/$(1),%,$(wildcard examples/*/$(1)))

##@ Work on it

.PHONY: check
check: fmt-check vet lint unit python-test js-test gen-check deps-check ## Quick, before each commit: format, vet, lint, layers, sizes, unit tests, generated code

# What needs a control plane runs side by side, the longest first: each part waits for something often. Packages that are
# missing are installed before, as two installations at once refuse each other. Four scripts and a real node at once are near the
# inotify instances that a user has by default.
.PHONY: test
test: check | need-kubernetes-client need-node ## All tests: check, scripts, dashboard, a real node, control plane, charts. Continuous integration runs this
	$(MAKE) --no-print-directory -j 2 e2e test-node-here browser controlplane-test release-test monitoring-rules

.PHONY: test-all
test-all: test e2e-alone explore-test unit-race release-test-long monitoring explore-test-long explore-mutants scaffold-test test-kubernetes cross soak-short bench-smoke ## test and more: scripts with control planes of their own, the race detector everywhere, a release, explorations against a control plane, mutants, the oldest Kubernetes, builds for all platforms, a short soak, a tiny bench

# Four tenths of the time of these tests is that of API servers, which take more memory so, and less time to collect garbage.
CLUSTER_TEST := GOGC=400 go

E2E := $(CLUSTER_TEST) test -count=1 -timeout 60m -parallel 6 ./test/e2e

.PHONY: e2e
e2e: bin/setpoint | need-python need-kubernetes-client need-node ## Run the scripts of test/e2e and of the examples on a real control plane
	$(E2E) -skip '^TestAlone$$'

.PHONY: e2e-alone
e2e-alone: bin/setpoint | need-python need-kubernetes-client need-node ## Run the scripts that boot, break or restart control planes of their own
	$(E2E) -run '^TestAlone$$'

# A browser that is missing is installed where it can be: tools/find-chromium.sh.
BROWSER := $(CLUSTER_TEST) -C test/browser test -count=1 -timeout 15m -parallel 4
BROWSERFLAGS :=

.PHONY: explore-test
explore-test: bin/setpoint ## Compare the API server and the models of explorations with a real control plane
	$(CLUSTER_TEST) test -count=1 -timeout 60m ./test/explore

.PHONY: explore-mutants
explore-mutants: bin/setpoint ## Explore operators and examples with one mistake each: each is found
	SETPOINT=$(CURDIR)/bin/setpoint go test -count=1 -timeout 30m ./test/explore/mutants

.PHONY: explore-test-long
explore-test-long: bin/setpoint
	go test -count=1 -timeout 30m ./internal/apply -seeds 300 -first 0
	go test -count=1 -timeout 60m ./test/explore -seeds 100 -first 1000

# Prometheus' packages are in a module of their own.
.PHONY: monitoring
monitoring: bin/setpoint | need-go ## Test alert rules and dashboard, and cause each alert on a real control plane
	go -C test/monitoring vet ./...
	SETPOINT=$(CURDIR)/bin/setpoint go -C test/monitoring test -count=1 -timeout 15m ./...

# Without a control plane, in seconds once it is compiled.
.PHONY: monitoring-rules
monitoring-rules: | need-go
	go -C test/monitoring test -count=1 -timeout 30m -skip '^TestCauses$$' ./...

.PHONY: browser
browser: bin/setpoint | need-python need-node ## Use the UI in a Chromium, against a real control plane
	SETPOINT=$(CURDIR)/bin/setpoint $(BROWSER) $(BROWSERFLAGS) .

.PHONY: screenshots
screenshots: bin/setpoint | need-python need-node ## Take the pictures of docs/pictures anew
	SETPOINT=$(CURDIR)/bin/setpoint $(BROWSER) -run '^TestPictures$$' . -pictures $(CURDIR)/docs/pictures

# What is built is in bin/node, as is what is downloaded: Debian's packages, which are unpacked there and not installed.
NODE := bin/node

# test says what this machine lacks for a real node, if anything, and goes on.
.PHONY: test-node-here
test-node-here: bin/setpoint | need-go
	@go -C test/node build -o $(CURDIR)/$(NODE)/ ./need
	@if lacking=$$($(NODE)/need $(CURDIR) 2>&1); then $(MAKE) --no-print-directory test-node; \
	  else echo "test-node is left out: $$lacking"; fi

.PHONY: test-node
test-node: | need-go ## Run pods on a real node (kubelet, kube-proxy, containerd), and install Setpoint there; root on Debian, nothing stays
	@go -C test/node run ./need $(CURDIR)
	@$(MAKE) --no-print-directory bin/setpoint bin/setpoint-controller $(addprefix $(NODE)/,programs/kubelet programs/containerd release/install operators browser.test)
	SETPOINT=$(CURDIR)/bin/setpoint go -C test/node test -count=1 -p 1 -timeout 40m $(NODEFLAGS) ./...

SOAK      := 10m
SOAKFLAGS :=

.PHONY: soak
soak: bin/setpoint ## Run Setpoint under random faults for SOAK (10m) and look what comes of it
	go test -count=1 -timeout 0 -v ./test/soak -for $(SOAK) $(SOAKFLAGS)

.PHONY: soak-short
soak-short: bin/setpoint
	go test -count=1 -timeout 10m ./test/soak

.PHONY: bench
bench: bin/setpoint bin/setpoint-controller bin/bench-inprocess ## Measure against a hand-written controller; one table with ratios
	$(BENCH) $(BENCHFLAGS)

.PHONY: bench-admission
bench-admission: bin/setpoint bin/setpoint-controller ## Measure what it costs that pods are changed before they are stored
	go -C test/bench run ./admission $(BENCHFLAGS)

.PHONY: compare
compare: bin/setpoint bin/setpoint-controller bin/compare-setpoint bin/compare-kubebuilder | need-python compare-kopf ## Measure one operator in Kopf (fetched by pip), in kubebuilder and here
	go -C test/bench run ./compare $(COMPAREFLAGS)

RELEASEFLAGS :=

.PHONY: release
release: | need-go ## Make all that a release consists of in dist/: binaries, image, chart, manifests, SBOMs, checksums
	go -C tools/release run . -root $(CURDIR) -o $(CURDIR)/dist -full $(RELEASEFLAGS)

.PHONY: manifests
manifests: | need-go ## Write the chart and the manifests of a release to dist/, in seconds: no binary and no image
	go -C tools/release run . -root $(CURDIR) -o $(CURDIR)/dist -install-only $(RELEASEFLAGS)

.PHONY: python-dist
python-dist: | need-python ## Build the wheel and the sdist of the Python package in dist/python/, without any download
	@$(PYTHON) python/packaging/build_backend.py dist/python

.PHONY: js-dist
js-dist: | need-node ## Pack the JavaScript package in dist/js/, for npm install, without any download
	@mkdir -p dist/js
	@cp LICENSE js/ && trap 'rm js/LICENSE' EXIT && npm pack --offline --silent --pack-destination dist/js ./js

.PHONY: gen
gen: | need-go ## Generate deepcopy functions, CRDs, reference pages and the lists of dependencies
	go generate ./...
	$(MAKE) --no-print-directory deps

.PHONY: fmt
fmt: | need-go ## Format all Go code
	@gofmt -l -w $(GO_FILES)

.PHONY: lint
lint: bin/tools/golangci-lint ## Run the linters of .golangci.yml
	bin/tools/golangci-lint run --allow-serial-runners ./...

.PHONY: clean
clean: ## Remove what was built here (the go command keeps its own cache)
	rm -rf bin

KUBERNETES := 1.30

# Left out are what prints the columns and warnings of a newer API server, and what only that does.
.PHONY: test-kubernetes
test-kubernetes: export SETPOINT_KUBERNETES_BINARIES = $(CURDIR)/bin/kubernetes-$(KUBERNETES)
test-kubernetes: bin/kubernetes-$(KUBERNETES)/kube-apiserver bin/setpoint | need-python need-kubernetes-client need-node ## Run the scripts on KUBERNETES=1.36, or 1.30, the oldest supported version, which is compiled first
	$(CLUSTER_TEST) test -count=1 -timeout 90m -parallel 6 ./test/e2e -skip '^(TestPages|TestTutorial|TestScripts)$$/^(docs|One_file|Python)'
	SETPOINT=$(CURDIR)/bin/setpoint $(CLUSTER_TEST) -C controlplane test -count=1 -timeout 30m -skip '^TestCluster$$/^(lists_come_in_shards|lists_are_not_compressed|kubectl_is_the_real_one)$$' .

# --- the binaries -----------------------------------------------------------

bin/setpoint: $(FULL_INPUTS) | need-go
	@$(if $(FIRST_LOOK),$(FIRST_LOOK) -ldflags '$(LDFLAGS)')
	@tools/build-with-progress.sh $@ controlplane ./cmd/setpoint -ldflags '$(LDFLAGS)'
	@touch $@

# One program stands for the three that are built. Kubernetes has its version stamped by the linker.
STAMP = $(shell sed -nE 's|^[[:space:]]*k8s.io/kubernetes (v[0-9.]+).*|\1|p' test/kubernetes/$*/go.mod)
STAMPED := k8s.io/component-base/version

bin/kubernetes-%/kube-apiserver: test/kubernetes/%/go.mod test/kubernetes/%/go.sum | need-go
	@tools/build-with-progress.sh $(@D)/ test/kubernetes/$* tool -ldflags \
	  '-s -w -X $(STAMPED).gitVersion=$(STAMP) -X $(STAMPED).gitMajor=1 -X $(STAMPED).gitMinor=$(word 2,$(subst ., ,$*))'
	@touch $@

# One program stands for all that a module of tools has.
$(NODE)/programs/kubelet: STAMP = $(shell sed -nE 's|^[[:space:]]*k8s.io/kubernetes (v[0-9.]+).*|\1|p' test/node/kubelet/go.mod)
$(NODE)/programs/kubelet: test/node/kubelet/go.mod test/node/kubelet/go.sum | need-go
	@tools/build-with-progress.sh $(@D)/ test/node/kubelet tool -ldflags \
	  '-s -w -X $(STAMPED).gitVersion=$(STAMP) -X $(STAMPED).gitMajor=1 -X $(STAMPED).gitMinor=$(word 2,$(subst ., ,$(STAMP)))'
	@touch $@

$(NODE)/programs/containerd: test/node/containerd/go.mod test/node/containerd/go.sum | need-go
	@tools/build-with-progress.sh $(@D)/ test/node/containerd tool -ldflags '-s -w'
	@touch $@

# The version is that of docs/install.md.
$(NODE)/release/install: $(LIGHT_INPUTS) $(call inputs,tools/release) | need-go
	go -C tools/release run . -root $(CURDIR) -o $(CURDIR)/$(@D) -version 0.1.0 -platforms linux/$(shell go env GOARCH)
	@touch $@

$(NODE)/operators: $(LIGHT_INPUTS) $(call inputs,examples) | need-go
	go build -ldflags '-s -w' -o $@/ $(addprefix ./examples/,config-restart exchangerate exchangerate/rates guitar watcher)
	@touch $@

$(NODE)/browser.test: $(wildcard test/browser/*.go test/browser/go.*) | need-go
	go -C test/browser test -c -o $(CURDIR)/$@ .

bin/setpoint-controller: $(LIGHT_INPUTS) | need-go
	@tools/build-with-progress.sh $@ . ./cmd/setpoint-controller -ldflags '$(LDFLAGS)'
	@touch $@

bin/bench-inprocess: $(LIGHT_INPUTS) $(call inputs,test/bench) | need-go
	@tools/build-with-progress.sh $@ test/bench ./inprocess -ldflags '-s -w'
	@touch $@

bin/compare-setpoint: $(LIGHT_INPUTS) $(call inputs,examples/exchangerate) | need-go
	go build -ldflags '-s -w' -o $@ ./examples/exchangerate
	@touch $@

bin/compare-kubebuilder: test/bench/go.mod $(call inputs,test/bench/compare/kubebuilder) | need-go
	go -C test/bench build -ldflags '-s -w' -o ../../$@ ./compare/kubebuilder/cmd
	@touch $@

bin/tools/golangci-lint: tools/lint/go.mod tools/lint/go.sum | need-go
	@tools/build-with-progress.sh $@ tools/lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

# --- the parts of check -----------------------------------------------------

# The root module's Go files and those of the nested ones.
GO_FILES = $(shell git ls-files --cached --others --exclude-standard -- '*.go')

.PHONY: fmt-check
fmt-check: | need-go
	@unformatted=$$(gofmt -l $(GO_FILES)); \
	  [ -z "$$unformatted" ] || { echo "not formatted (run make fmt):"; echo "$$unformatted"; exit 1; }

.PHONY: vet
vet: | need-go
	go vet ./...
	go -C test/bench vet ./...
	go -C test/browser vet ./...

# The layers and the sizes are tests of test/house. What explores thousands of states, reads all sources, or runs an interpreter
# takes five times as long with the race detector, which sees the same goroutines over and over: unit-race has it there, too.
LONG := $(addprefix ./,config/... test/house examples/... $(addprefix internal/,apply call/inline cli controller/... explore/... script/... testcase))
RACED = CGO_ENABLED=$(if $(RACE),1,0) go test $(RACE) -timeout 30m

.PHONY: unit
unit: | need-go
	go test -timeout 30m $(LONG)
	$(RACED) $$(go list ./... | grep -vxF "$$(go list $(LONG))" | grep -vE '/test/(e2e|explore|explore/mutants|soak)$$')

.PHONY: unit-race
unit-race: | need-go
	$(RACED) $(LONG)

# The first interpreter that can run the package: a python3 of a version manager may be a stub.
PYTHON = $(firstword $(foreach python,$(PYTHONS),$(if $(shell $(python) -c '$(PYTHON_CHECK)' 2>/dev/null),$(python))))
PYTHONS := python3 /usr/bin/python3 $(addprefix python3.,13 12 11 10 9)
PYTHON_CHECK := import asyncio, json, ssl, sys; print(sys.version_info >= (3, 9) or "")

.PHONY: python-test
python-test: ## Run the tests of the Python package
	@[ -n "$(PYTHON)" ] || { echo "the tests of the Python package need Python 3.9 or newer, and none was found"; exit 1; }
	cd python && $(PYTHON) -W error::DeprecationWarning -m unittest discover --top-level-directory . --start-directory tests --buffer

.PHONY: scaffold-test
scaffold-test: bin/setpoint | need-go
	go test -count=1 -timeout 40m ./internal/scaffold -setpoint=$(CURDIR)/bin/setpoint

.PHONY: python-types
python-types: ## Check the types of the Python package, and those that setpoint types writes, with mypy
	python=$$(tools/find-python.sh mypy) && \
	  (cd python && $$python -m mypy --strict --no-incremental --cache-dir=/dev/null setpoint) && \
	  go test -count=1 -run '^TestPython$$' ./internal/typegen -mypy=$$python

TSC ?= $(shell command -v tsc)

.PHONY: typescript-types
typescript-types: | need-go ## Check the declarations, and the operator in TypeScript, that setpoint writes, with TSC=path/to/tsc
	@[ -n "$(TSC)" ] || { echo "npm install typescript @types/node, and set TSC=node_modules/.bin/tsc"; exit 1; }
	go test -count=1 -run '^TestTypeScriptOperators$$' ./internal/cli -tsc=$(abspath $(TSC))

.PHONY: js-test
js-test: | need-node ## Run the tests of the JavaScript package
	cd js && node --test

PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

.PHONY: cross
cross: $(PLATFORMS:%=cross/%)

.PHONY: $(PLATFORMS:%=cross/%)
$(PLATFORMS:%=cross/%): | need-go
	GOOS=$(notdir $(@D)) GOARCH=$(@F) go build -o /dev/null ./cmd/setpoint

# Generated files are compared with what generating yields now, wherever the
# tree stands: a commit in the making is checked as well as a finished one.
.PHONY: gen-check
gen-check: | need-go
	@tools/unchanged-by.sh go generate ./... -- api config docs examples internal/failure js

# The go command sees no files outside of a module: -count=1 runs the tests again when they change.
# The chart is rendered and linted by Helm's packages. A release with all its binaries, twice, and `go install`
# take minutes: release-test-long.
.PHONY: release-test
release-test: | need-go
	go -C tools/release vet ./...
	go -C tools/release test -count=1 -timeout 10m -skip '^TestGoInstall$$|^TestRelease$$' ./...

.PHONY: release-test-long
release-test-long: | need-go
	go -C tools/release test -count=1 -timeout 40m -run '^TestGoInstall$$|^TestRelease$$' .

.PHONY: controlplane-test
controlplane-test: bin/setpoint
	go -C controlplane vet ./...
	SETPOINT=$(CURDIR)/bin/setpoint $(CLUSTER_TEST) -C controlplane test -count=1 -timeout 20m ./...

# --- what the binaries consist of -------------------------------------------

# One platform's lists stand for all: what differs between them is in golang.org/x/sys.
.PHONY: deps
deps: | need-go
	@mkdir -p deps
	@tools/list-dependencies.sh packages . ./cmd/setpoint-controller >deps/setpoint-controller.txt
	@tools/list-dependencies.sh modules controlplane ./cmd/setpoint >deps/setpoint.txt

.PHONY: deps-check
deps-check: | need-go
	@tools/unchanged-by.sh $(MAKE) --no-print-directory deps -- deps

# --- the bench --------------------------------------------------------------

BENCH      := go -C test/bench run . -setpoint ../../bin/setpoint
BENCHFLAGS :=

.PHONY: bench-smoke
bench-smoke: bin/setpoint bin/setpoint-controller bin/bench-inprocess
	go -C test/bench test ./...
	$(BENCH) -smoke

# --- the comparison ---------------------------------------------------------

COMPAREFLAGS :=

# Kopf is fetched into a virtual environment of its own. Where that cannot be, the
# reason is said, and the comparison goes on without it.
.PHONY: compare-kopf
compare-kopf: KOPF := test/bench/compare/kopf
compare-kopf:
	@[ bin/compare-kopf/bin/kopf -nt $(KOPF)/requirements.txt ] || $(KOPF)/install.sh bin/compare-kopf || true

# --- what must be there -----------------------------------------------------

.PHONY: need-go
need-go:
	@command -v go >/dev/null || { \
	  echo "Setpoint is built with Go $(GO_WANTED) or newer, and no go command was found: see https://go.dev/doc/install"; exit 1; }
	@go list -m >/dev/null 2>&1 || { \
	  echo "Setpoint is built with Go $(GO_WANTED) or newer; here is $$(cd / && go version | cut -d' ' -f3), which may not fetch a newer one (GOTOOLCHAIN=local): see https://go.dev/doc/install"; exit 1; }

GO_WANTED = $(shell sed -n 's/^go //p' go.mod)

.PHONY: need-python
need-python:
	@command -v python3 >/dev/null || { \
	  echo "Hooks of the examples are Python programs (standard library only), and no python3 command was found: install Python 3.8 or newer"; exit 1; }

# examples/kopf imports what operators for Kopf import.
.PHONY: need-kubernetes-client
need-kubernetes-client:
	@tools/find-python.sh kubernetes requests >/dev/null

.PHONY: need-node
need-node:
	@command -v node >/dev/null || { \
	  echo "Hooks of the examples are JavaScript programs (node's standard library only), and no node command was found: install Node.js 20 or newer, see https://nodejs.org"; exit 1; }
