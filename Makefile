# olm-controller: targets for people and CI. `make help` lists them.

# Most targets write into target, and some need what another has written.
.NOTPARALLEL:

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
PROMTOOL ?= promtool
LOCAL_CLUSTER := target/local-cluster
export CLIPPY_CONF_DIR := $(CURDIR)/hack
# Tests and the demo start their own control plane, and never use your kubeconfig.
unexport KUBECONFIG
# Tools that hack/tools.sh has fetched.
export PATH := $(CURDIR)/target/tools/bin:$(PATH)

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-20s %s\n", $$1, $$2}'

.PHONY: prerequisites
prerequisites: ## Check the toolchains, and print how to install missing ones
	@hack/prerequisites.sh

##@ Build

.PHONY: build
build: prerequisites ## Build both programs into target/quick with few optimisations (images and releases are fully optimised)
	$(CARGO) build --locked --profile quick --package olm-controller --package kubectl-olm

# Architectures of the image.
ARCH ?= amd64,arm64

.PHONY: image
image: tools-image built ## Build the image into target/image and an archive, without a container engine (ARCH=amd64,arm64)
	target/debug/xtask image --arch "$(ARCH)" $(if $(SOURCE),--source "$(SOURCE)")
	target/debug/xtask image --check

.PHONY: image-compare
image-compare: tools-image built ## Build the image here and in another folder, and compare every byte (half an hour)
	@hack/image_compare.sh "$(ARCH)"

.PHONY: push
push: built ## Push the image that `make image` built (IMAGE=HOST/REPOSITORY:TAG, FORCE=1 moves a tag)
	target/debug/xtask push-image "$(IMAGE)" $(if $(FORCE),--force)

# The default name of the image of a release, and the address of its files.
release: IMAGE := $(or $(IMAGE),olm-controller:$(VERSION))
release: SOURCE := $(or $(SOURCE),https://example.com/olm-controller)
.PHONY: release
release: built tools-image tools-helm ## Write all files of a release into target/release-files, and check them (VERSION=vX.Y.Z, IMAGE=HOST/REPOSITORY:TAG, SOURCE=URL of the repository)
	@test -n "$(VERSION)" || { echo "name VERSION=vX.Y.Z" >&2; exit 1; }
	@target/debug/xtask release "$(VERSION)" --image "$(IMAGE)" --source "$(SOURCE)" --check
	@hack/tools.sh windows darwin || echo "the plugin for Windows or macOS may be missing; RELEASE.md shows why" >&2
	$(MAKE) image ARCH=amd64,arm64 SOURCE="$(SOURCE)"
	image="$$(target/debug/xtask image --pin "$(IMAGE)")"; \
	$(MAKE) install-yaml chart IMAGE="$$image"; \
	target/debug/xtask release "$(VERSION)" --image "$$image" --source "$(SOURCE)"
	@hack/release_check.sh "$(VERSION)"

.PHONY: release-check
release-check: built tools-helm ## Check the files of `make release` again (VERSION=vX.Y.Z)
	@hack/release_check.sh "$(VERSION)"

.PHONY: tools-helm
tools-helm: prerequisites
	@hack/tools.sh helm

comma := ,
.PHONY: tools-image
tools-image: prerequisites
	@hack/tools.sh zig $(subst $(comma), ,$(ARCH))

# The file system of the image for this machine, so that demo and tests run the shipped program.
IMAGE_ROOT := target/image-root
demo test-image test-image-user measure-pod image-root: ARCH := $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,amd64)

.PHONY: image-root
image-root: built
	$(MAKE) image ARCH="$(ARCH)"
	rm -rf "$(IMAGE_ROOT)"
	target/debug/xtask image --unpack "$(IMAGE_ROOT)"

# One file for each overlay of config.
MANIFESTS := target/manifests

.PHONY: install-yaml
install-yaml: local-cluster ## Write install.yaml and the other overlays as files into target/manifests (IMAGE=HOST/REPOSITORY:TAG)
	hack/install_yaml.sh "$(MANIFESTS)" "$(IMAGE)"

# The Helm chart, from the same manifests.
CHART := target/chart/olm-controller

.PHONY: chart
chart: local-cluster tools-helm ## Write the Helm chart into target/chart, checked by Helm (IMAGE=)
	hack/chart.sh "$(CHART)" "$(IMAGE)"

.PHONY: local-cluster
local-cluster: prerequisites ## Build the local control plane (several minutes the first time)
	@hack/local-cluster/build.sh "$(CURDIR)/$(LOCAL_CLUSTER)"

.PHONY: built
built: prerequisites
	@hack/build.sh

##@ Try it

.PHONY: demo
demo: built $(if $(IMAGE),image-root) ## Show the main functions on a new local control plane (KEEP=1 leaves it running, IMAGE=1 runs the program of the image)
	@hack/install_yaml.sh "$(MANIFESTS)"
	@hack/demo.sh $(if $(IMAGE),--image "$(IMAGE_ROOT)") $(if $(KEEP),--keep)

##@ Use your own cluster ($KUBECONFIG, otherwise kubectl's default)

YOURS := $(if $(KUBECONFIG),KUBECONFIG="$(KUBECONFIG)")

.PHONY: install
install: ## Install the CRDs, the controller's rights and the admission policies
	$(YOURS) kubectl apply --server-side -k config/crd
	$(YOURS) kubectl apply --server-side -k config/rbac
	$(YOURS) kubectl apply --server-side -k config/policy

.PHONY: uninstall
uninstall: ## Remove the objects of `make install`: CRDs with everything installed through them, policies, rights, namespace
	-$(YOURS) kubectl annotate --overwrite -k config/crd policy.olm.operatorframework.io/allow-deletion=true
	$(YOURS) kubectl delete --ignore-not-found -k config/crd
	$(YOURS) kubectl delete --ignore-not-found -k config/policy
	$(YOURS) kubectl delete --ignore-not-found -k config/rbac

.PHONY: run
# Your kubeconfig usually has an administrator's rights, which the program would refuse otherwise.
run: built ## Run the controller on this machine against your cluster, with your rights; state in target/run
	mkdir -p target/run
	$(YOURS) target/debug/olm-controller \
	  --catalogs-server-addr 127.0.0.1:0 --health-probe-bind-address 127.0.0.1:0 \
	  --listen-info target/run/listen.json --allow-excessive-rights \
	  --cache-dir target/run/catalogs --cache-path target/run/bundles

##@ Test

.PHONY: test
test: built ## Run all tests that take only minutes, including those on a control plane
	@hack/test.sh

.PHONY: test-unit
test-unit: prerequisites ## Run unit, data, property, snapshot and command-line tests; offline
	$(CARGO) test --locked --workspace

# Tests that need more than the checkout are programs that are run by name (test/Cargo.toml).
CONTROL_PLANE := $(CARGO) test --locked --workspace --test control_plane --
# Most of these tests wait: for an unreachable registry, for a lease, for rights.
THREADS ?= 8

.PHONY: test-control-plane
test-control-plane: built ## Run the tests on a real kube-apiserver, etcd and registry (THREADS=8), and list the slowest
	hack/local-cluster/go.sh test -vet=off ./... # `make lint` has all of vet, which reads all of Kubernetes
	@hack/slowest.sh $(CONTROL_PLANE) --test-threads=$(THREADS)

# Tests that wait for many minutes have their own targets. The short form has tests of each kind without those that take longest; chaos
# watches upgrade after upgrade, too, and the other tests of manifests are in `make test-image`.
LONG := --skip releases:: --skip classic::itself --skip under_load_fail_no_request
SOME := takeover:: content_that_takes_something_away crd_changes::the_api_server lease:: dead_ends::an_archived data:: moving::a_cluster cost::a_restart memory::the_largest memory::larger silence:: a_roll_out_that_fails

.PHONY: test-full
test-full: built $(if $(SHORT),,chart) ## Run the tests about time, size, another installer or another release (two hours; SHORT=1: a selection, minutes)
	@hack/slowest.sh $(CONTROL_PLANE) --ignored --test-threads=$(THREADS) $(LONG) $(if $(SHORT),$(SOME))
	$(if $(SHORT),,$(CARGO) test --locked --workspace --test chaos -- --ignored)
	$(if $(SHORT),,$(MAKE) test-matrix availability)

# Other releases of Kubernetes, and what is tested on them: install, upgrade, uninstall, policies.
KUBERNETES ?= 1.35.4 1.34.4 1.33.13
MATRIX := install:: manifests::one_apply manifests::a_process accounts:: objectset:: webhooks:: updates::

.PHONY: test-matrix
test-matrix: built ## Run some control-plane tests on other releases of Kubernetes (KUBERNETES="1.35.4 1.34.4 1.33.13"; minutes each the first time)
	for version in $(KUBERNETES); do \
	  folder="$(CURDIR)/target/matrix/$$version"; \
	  hack/local-cluster/other.sh "$$version" "$$folder"; \
	  LOCAL_CLUSTER="$$folder/local-cluster" $(CONTROL_PLANE) --include-ignored --test-threads=$(THREADS) $(MATRIX); \
	done

.PHONY: availability
availability: built ## Count failed requests while replicas are replaced and killed (ROUNDS=10, KILLS=10: 25 minutes)
	PAUSE=0 ROUNDS="$(or $(ROUNDS),10)" KILLS="$(or $(KILLS),10)" $(CONTROL_PLANE) --include-ignored --nocapture --test-threads=1 under_load_fail_no_request

.PHONY: test-image
test-image: image-root ## Test the manifests, and an install through them, with the program of the image
	OLM_IMAGE_ROOT="$(IMAGE_ROOT)" $(CONTROL_PLANE) --include-ignored manifests

.PHONY: test-image-user
test-image-user: image-root ## Run the program of the image as user 65532 on a read-only root; needs root
	hack/image_run.sh "$(IMAGE_ROOT)"

.PHONY: test-web
test-web: built ## Test the pages of `kubectl olm browse` in a real browser
	@hack/tools.sh browser
	$(CARGO) test --locked --workspace --test web

.PHONY: test-corpus
test-corpus: built ## Run test vectors, tables of other projects and real bundles from a folder outside of the checkout (OLM_SHARED, default ../shared)
	$(CARGO) test --locked --workspace --test corpus

.PHONY: test-upgrade
FROM ?= $(shell git describe --tags --abbrev=0 2>/dev/null || git rev-parse HEAD~1)
test-upgrade: built ## Test extensions while the controller is replaced by another build and back (FROM=newest tag or previous commit)
	@hack/other_build.sh "$(FROM)"
	OLM_OTHER="$(CURDIR)/target/other" $(CONTROL_PLANE) --include-ignored releases::

.PHONY: test-signatures
test-signatures: prerequisites ## Compare the table of signatures with containers/image itself; fetches its Go module
	rm -rf target/signatures && mkdir -p target/signatures
	OLM_SIGNATURE_ROWS="$(CURDIR)/target/signatures" $(CARGO) test --locked --package olm-image --lib table_tests
	cd hack/signatures && export CGO_ENABLED=0 && go vet -trimpath -tags containers_image_openpgp . && \
	  go run -trimpath -tags containers_image_openpgp . "$(CURDIR)/target/signatures"

.PHONY: test-alerts
# promtool reads the part below spec of the PrometheusRule.
test-alerts: ## Run the unit tests of the alerts; needs promtool (PROMTOOL=)
	@command -v $(PROMTOOL) >/dev/null || hack/tools.sh promtool
	@mkdir -p target/alerts
	sed '1,/^spec:/d; s/^  //' config/components/monitoring/prometheus_rule.yaml > target/alerts/rules.yaml
	$(PROMTOOL) check rules target/alerts/rules.yaml
	$(PROMTOOL) test rules test/alerts/alerts.yaml

.PHONY: chaos
chaos: built ## Kill the controller, fail its requests, delete objects, act as another tenant, stop its dependencies (ROUNDS=10, WORLDS=1, SEED=, FAULTS=50, SILENCE_SECONDS=30, ETCD_SECONDS=20, REGISTRY_SECONDS=60)
	ROUNDS=$(or $(ROUNDS),10) $(CARGO) test --locked --workspace --test chaos -- --nocapture

.PHONY: silence
silence: built ## Prove that 50 settled extensions cost no write in five minutes, and measure them
	EXTENSIONS=$(or $(EXTENSIONS),50) SILENCE_SECONDS=$(or $(SILENCE_SECONDS),300) $(CONTROL_PLANE) --include-ignored --nocapture silence

.PHONY: bench-cluster
bench-cluster: built ## Compare installs of real bundles with a bare client; measure the requests of an install, the ingest of a catalog, and EXTENSIONS=1000 of CATALOGS=10 at rest for REST_SECONDS=60
	$(CARGO) test --locked --workspace --test corpus -- --ignored --nocapture bundles::bare
	for others in 0 100; do OTHERS=$$others $(CONTROL_PLANE) --include-ignored --nocapture an_install_asks_nothing_about_the_others || exit 1; done
	$(CARGO) bench --locked --package olm-bench --bench ingest
	$(MAKE) scale EXTENSIONS=$(or $(EXTENSIONS),1000)

.PHONY: profile
profile: built ## Draw a flame graph of installs: target/profile/flame.svg; of real bundles if OLM_SHARED has them
	@hack/tools.sh perf inferno
	$(MAKE) build
	@hack/profile.sh

.PHONY: scale
scale: ## Measure many extensions: installed, at rest, and when the controller is killed (EXTENSIONS=200, CATALOGS=10, REST_SECONDS=60)
	CATALOGS=$(or $(CATALOGS),10) $(MAKE) silence EXTENSIONS=$(or $(EXTENSIONS),200) SILENCE_SECONDS=$(or $(REST_SECONDS),60)

.PHONY: test-deadlines
test-deadlines: built ## Run the tests that wait for the deadline of a rollout (two minutes)
	$(CONTROL_PLANE) --ignored a_roll_out_that_fails a_changed_spec_is_followed

.PHONY: test-classic
test-classic: built ## Test the migration of operators from a running OLM Classic, built from its Go module (some minutes the first time)
	@hack/tools.sh classic
	OLM_CLASSIC="$(CURDIR)/target/tools/classic/olm" $(CONTROL_PLANE) --ignored --nocapture classic::itself

.PHONY: measure-pod
# The resource requests of config/manager must cover the printed values.
measure-pod: image-root ## Measure the program of the image: empty, installing EXTENSIONS=20, at rest for SILENCE_SECONDS=300
	OLM_IMAGE_ROOT="$(IMAGE_ROOT)" EXTENSIONS=$(or $(EXTENSIONS),20) $(MAKE) silence

.PHONY: bench
bench: prerequisites ## Measure resolution, rendering and ingest, with real data if OLM_SHARED has it
	$(CARGO) bench --locked --package olm-bench

.PHONY: fuzz
# Without a sanitizer, because there is no unsafe code, and stable Rust suffices.
fuzz: prerequisites ## Fuzz every parser for SECONDS each, in turn (SECONDS=60, TARGETS="bundle catalog config range yaml")
	@hack/tools.sh cargo-fuzz
	@test/fuzz/seed.sh target/fuzz/seeds
	@cp Cargo.lock test/fuzz/Cargo.lock # the same versions, not a second list of them
	@for target in $(or $(TARGETS),bundle catalog config range yaml); do \
	  mkdir -p target/fuzz/corpus/$$target; \
	  (cd test/fuzz && cargo fuzz run --fuzz-dir . --sanitizer none --target-dir ../../target/fuzz $$target \
	    ../../target/fuzz/corpus/$$target ../../target/fuzz/seeds/$$target \
	    -- -max_total_time=$(or $(SECONDS),60) -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1); \
	done

##@ Maintain

.PHONY: lint
lint: prerequisites ## Check formatting, clippy, rustdoc, Go vet, shell scripts, workflows and generated files
	! git grep -nIE '^(<{7}|>{7}) '
	$(CARGO) fmt --all --check
	test -z "$$(gofmt -l hack/local-cluster hack/signatures)"
	hack/local-cluster/go.sh vet ./...
	@hack/tools.sh actionlint cargo-deny shellcheck
	shellcheck hack/*.sh hack/local-cluster/*.sh .github/actions/*/*.sh .ci/run
	actionlint
	$(CARGO) deny --config hack/deny.toml check bans licenses sources
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings
	$(CARGO) clippy --locked --workspace --test '*' -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --locked --workspace --no-deps --quiet
	$(CARGO) run --locked --quiet --package xtask -- manifests --check

.PHONY: fmt
fmt: ## Format the code
	$(CARGO) fmt --all
	gofmt -w hack/local-cluster hack/signatures

.PHONY: manifests
manifests: ## Write the CRDs and the controller's roles into config, and the reference into docs
	$(CARGO) run --locked --quiet --package xtask -- manifests

.PHONY: docs
docs: ## Render the documents as a site, with mdBook, into target/book
	@hack/tools.sh mdbook
	@hack/docs.sh

.PHONY: pictures
pictures: built ## Record `make demo` again as docs/img/demo.svg
	@hack/install_yaml.sh "$(MANIFESTS)"
	FORCE_COLOR=1 hack/demo.sh 2>&1 | target/debug/xtask terminal target/demo.svg --title "make demo"
	mv target/demo.svg docs/img/demo.svg

.PHONY: size
size: prerequisites ## Count the lines of code and of tests by folder, without blanks and comments
	$(CARGO) run --locked --quiet --package xtask -- size

.PHONY: verify
verify: ## Fail if generated files are not up to date
	$(CARGO) run --locked --quiet --package xtask -- manifests --check

.PHONY: clean
clean: ## Remove build output
	$(CARGO) clean
