# olm-controller: targets for people and CI. `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
PROMTOOL ?= promtool
LOCAL_CLUSTER := target/local-cluster
export CLIPPY_CONF_DIR := $(CURDIR)/hack
# Tests and the demo bring their own control plane; a kubeconfig of yours is never touched.
unexport KUBECONFIG
# Tools that hack/tools.sh has fetched.
export PATH := $(CURDIR)/target/tools/bin:$(PATH)

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-20s %s\n", $$1, $$2}'

.PHONY: prerequisites
prerequisites: ## Check that the toolchains are there, and say how to install what is not
	@hack/prerequisites.sh

##@ Build

.PHONY: build
build: prerequisites ## Build both programs into target/quick, little optimised; images and releases are fully
	$(CARGO) build --locked --profile quick --package olm-controller --package kubectl-olm

# Architectures of the image.
ARCH ?= amd64,arm64

.PHONY: image
image: tools-image built ## Build the image, without a container engine, into target/image and an archive (ARCH=amd64,arm64)
	target/debug/xtask image --arch "$(ARCH)"
	target/debug/xtask image --check

.PHONY: image-compare
image-compare: tools-image built ## Build the image here and in another folder, and compare every byte (about 10 minutes)
	@hack/image_compare.sh "$(ARCH)"

.PHONY: push
push: built ## Push what `make image` has built (IMAGE=HOST/REPOSITORY:TAG, FORCE=1 moves a tag)
	target/debug/xtask push-image "$(IMAGE)" $(if $(FORCE),--force)

# What a release of the image is called where nobody names a registry, and where its files will be.
release: IMAGE := $(or $(IMAGE),olm-controller:$(VERSION))
release: SOURCE := $(or $(SOURCE),https://example.com/olm-controller)
.PHONY: release
release: tools-image tools-helm ## Everything of a release into target/release-files, checked (VERSION=vX.Y.Z, IMAGE=HOST/REPOSITORY:TAG, SOURCE=URL of the repository)
	@test -n "$(VERSION)" || { echo "name VERSION=vX.Y.Z" >&2; exit 1; }
	@hack/tools.sh windows darwin || echo "the plugin for Windows or macOS may be missing; RELEASE.md shows why" >&2
	$(MAKE) image ARCH=amd64,arm64
	image="$$(target/debug/xtask image --pin "$(IMAGE)")"; \
	$(MAKE) install-yaml chart IMAGE="$$image"; \
	target/debug/xtask release "$(VERSION)" --image "$$image" --source "$(SOURCE)"
	@hack/release_check.sh "$(VERSION)"

.PHONY: release-check
release-check: tools-helm ## Check again what `make release` has written (VERSION=vX.Y.Z)
	@hack/release_check.sh "$(VERSION)"

.PHONY: tools-helm
tools-helm: prerequisites
	@hack/tools.sh helm

comma := ,
.PHONY: tools-image
tools-image: prerequisites
	@hack/tools.sh zig $(subst $(comma), ,$(ARCH))

# The file system of the image for this machine: what demo and tests start is what is shipped.
IMAGE_ROOT := target/image-root
demo test-image test-image-user measure-pod image-root: ARCH := $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,amd64)

.PHONY: image-root
image-root: built
	$(MAKE) image ARCH="$(ARCH)"
	rm -rf "$(IMAGE_ROOT)"
	target/debug/xtask image --unpack "$(IMAGE_ROOT)"

# What each overlay of config makes, as one file.
MANIFESTS := target/manifests

.PHONY: install-yaml
install-yaml: local-cluster ## Write install.yaml and the other overlays as files into target/manifests (IMAGE=HOST/REPOSITORY:TAG)
	hack/install_yaml.sh "$(MANIFESTS)" "$(IMAGE)"

# The Helm chart, from the same parts.
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

##@ See it work

.PHONY: demo
demo: built $(if $(IMAGE),image-root) ## The main job from nothing, on a local control plane (KEEP=1 leaves it running, IMAGE=1 runs the program out of the image)
	@hack/install_yaml.sh "$(MANIFESTS)"
	@hack/demo.sh $(if $(IMAGE),--image "$(IMAGE_ROOT)") $(if $(KEEP),--keep)

##@ Use a cluster of yours ($KUBECONFIG, else kubectl's default)

YOURS := $(if $(KUBECONFIG),KUBECONFIG="$(KUBECONFIG)")

.PHONY: install
install: ## Install the kinds, the controller's rights and the policies on who may name an account
	$(YOURS) kubectl apply --server-side -k config/crd
	$(YOURS) kubectl apply --server-side -k config/rbac
	$(YOURS) kubectl apply --server-side -k config/policy

.PHONY: uninstall
uninstall: ## Remove the kinds, and with them everything installed through them
	-$(YOURS) kubectl annotate --overwrite -k config/crd policy.olm.operatorframework.io/allow-deletion=true
	$(YOURS) kubectl delete --ignore-not-found -k config/crd
	$(YOURS) kubectl delete --ignore-not-found -k config/policy

.PHONY: run
# Your kubeconfig is an administrator's, whose rights the program refuses to act with otherwise.
run: built ## Run the controller here against your cluster, as you; state in target/run
	mkdir -p target/run
	$(YOURS) target/debug/olm-controller \
	  --catalogs-server-addr 127.0.0.1:0 --health-probe-bind-address 127.0.0.1:0 \
	  --listen-info target/run/listen.json --allow-excessive-rights \
	  --cache-dir target/run/catalogs --cache-path target/run/bundles

##@ Test

.PHONY: test
test: test-unit test-control-plane ## Every test that takes no more than minutes, the control plane included

.PHONY: test-unit
test-unit: prerequisites ## Unit, data, property, snapshot and command-line tests; offline
	$(CARGO) test --locked --workspace

# Tests that need more than the checkout are programs that are run by name (test/Cargo.toml).
CONTROL_PLANE := $(CARGO) test --locked --workspace --test control_plane --
# Most of these tests wait: for a registry that is away, for a lease, for rights.
THREADS ?= 6

.PHONY: test-control-plane
test-control-plane: built ## Tests on a real kube-apiserver, etcd and registry (THREADS=6); ends with the slowest
	hack/local-cluster/go.sh test ./...
	@hack/slowest.sh $(CONTROL_PLANE) --test-threads=$(THREADS)

# Those that wait for many minutes have targets of their own. The short form is one of each point; what
# of the manifests is not in it is in `make test-image`.
LONG := --skip classic::itself --skip under_load_fail_no_request --skip a_roll_out_that_fails --skip a_bad_update_on_the_way
SOME := takeover:: catalog_holds:: crd_changes:: lease:: dead_ends:: data:: moving::a_cluster cost::a_restart memory:: silence::

.PHONY: test-full
test-full: built $(if $(SHORT),,chart) ## The tests whose point is time, size, another installer or another release (SHORT=1: some of each, minutes; else two hours)
	@hack/slowest.sh $(CONTROL_PLANE) --ignored --test-threads=$(THREADS) $(LONG) $(if $(SHORT),$(SOME))
	$(if $(SHORT),,$(MAKE) test-matrix availability test-deadlines)

# Other releases of Kubernetes, and what is tested on them: install, upgrade, uninstall, policies.
KUBERNETES ?= 1.35.4
MATRIX := install:: manifests::one_apply manifests::a_process accounts:: objectset:: webhooks:: updates::

.PHONY: test-matrix
test-matrix: built ## A selection of the control-plane tests on other releases of Kubernetes (KUBERNETES="1.35.4"; minutes each the first time)
	for version in $(KUBERNETES); do \
	  folder="$(CURDIR)/target/matrix/$$version"; \
	  hack/local-cluster/other.sh "$$version" "$$folder"; \
	  LOCAL_CLUSTER="$$folder/local-cluster" $(CONTROL_PLANE) --include-ignored --test-threads=$(THREADS) $(MATRIX); \
	done

.PHONY: availability
availability: built ## Requests a second while replicas are replaced and killed (ROUNDS=10, KILLS=10: 25 minutes)
	ROUNDS="$(or $(ROUNDS),10)" KILLS="$(or $(KILLS),10)" $(CONTROL_PLANE) --include-ignored --nocapture --test-threads=1 under_load_fail_no_request

.PHONY: test-image
test-image: image-root ## The manifests, and an install through them, with the program out of the image
	OLM_IMAGE_ROOT="$(IMAGE_ROOT)" $(CONTROL_PLANE) --include-ignored manifests

.PHONY: test-image-user
test-image-user: image-root ## The program out of the image as user 65532 on a read-only root; needs root
	hack/image_run.sh "$(IMAGE_ROOT)"

.PHONY: test-web
test-web: built ## The pages of `kubectl olm browse` in a real browser
	@hack/tools.sh browser
	$(CARGO) test --locked --workspace --test web

.PHONY: test-corpus
test-corpus: built ## Vectors, tables of other projects and real bundles beside the checkout (OLM_SHARED, default ../shared)
	$(CARGO) test --locked --workspace --test corpus

.PHONY: test-signatures
test-signatures: prerequisites ## The table of signatures against containers/image itself; fetches its Go module
	rm -rf target/signatures && mkdir -p target/signatures
	OLM_SIGNATURE_ROWS="$(CURDIR)/target/signatures" $(CARGO) test --locked --package olm-image --lib table_tests
	cd hack/signatures && export CGO_ENABLED=0 && go vet -trimpath -tags containers_image_openpgp . && \
	  go run -trimpath -tags containers_image_openpgp . "$(CURDIR)/target/signatures"

.PHONY: test-alerts
# promtool reads what stands below spec of the PrometheusRule.
test-alerts: ## Unit tests of the alerts; needs promtool (PROMTOOL=)
	@command -v $(PROMTOOL) >/dev/null || hack/tools.sh promtool
	@mkdir -p target/alerts
	sed '1,/^spec:/d; s/^  //' config/components/monitoring/prometheus_rule.yaml > target/alerts/rules.yaml
	$(PROMTOOL) check rules target/alerts/rules.yaml
	$(PROMTOOL) test rules test/alerts/alerts.yaml

.PHONY: chaos
chaos: built ## Kill the controller, fail its requests, delete by hand, act as another tenant, take away what it needs (ROUNDS=10, WORLDS=1, SEED=, FAULTS=50, SILENCE_SECONDS=30, ETCD_SECONDS=20, REGISTRY_SECONDS=60)
	ROUNDS=$(or $(ROUNDS),10) $(CARGO) test --locked --workspace --test chaos -- --nocapture

.PHONY: silence
silence: built ## Prove that 50 settled extensions cost no write in five minutes, and measure them
	EXTENSIONS=$(or $(EXTENSIONS),50) SILENCE_SECONDS=$(or $(SILENCE_SECONDS),300) $(CONTROL_PLANE) --include-ignored --nocapture silence

.PHONY: bench-cluster
bench-cluster: built ## Measure installs of the bundles beside the checkout next to a bare client, requests of an install, ingest of a catalog, and EXTENSIONS=1000 of CATALOGS=10 at rest for REST_SECONDS=60
	$(CARGO) test --locked --workspace --test corpus -- --ignored --nocapture bundles::bare
	for others in 0 100; do OTHERS=$$others $(CONTROL_PLANE) --include-ignored --nocapture an_install_asks_nothing_about_the_others || exit 1; done
	$(CARGO) bench --locked --package olm-bench --bench ingest
	$(MAKE) scale EXTENSIONS=$(or $(EXTENSIONS),1000)

.PHONY: profile
profile: built ## Draw where installs spend processor time: target/profile/flame.svg; real bundles if they are beside the checkout
	@hack/tools.sh perf inferno
	$(MAKE) build
	@hack/profile.sh

.PHONY: scale
scale: built ## Measure many extensions: installed, at rest, and when the controller is killed (EXTENSIONS=200, CATALOGS=10, REST_SECONDS=60)
	EXTENSIONS=$(or $(EXTENSIONS),200) CATALOGS=$(or $(CATALOGS),10) REST_SECONDS=$(or $(REST_SECONDS),60) $(CONTROL_PLANE) --include-ignored --nocapture scale

.PHONY: test-deadlines
test-deadlines: built ## The tests that wait for the deadline of a rollout, ten minutes at least (about 15 minutes)
	$(CONTROL_PLANE) --ignored a_roll_out_that_fails a_bad_update_on_the_way

.PHONY: test-classic
test-classic: built ## Operators move while OLM Classic itself runs, built from its Go module (some minutes the first time)
	@hack/tools.sh classic
	OLM_CLASSIC="$(CURDIR)/target/tools/classic/olm" $(CONTROL_PLANE) --ignored --nocapture classic::itself

.PHONY: measure-pod
# The requests of config/manager are to hold what this prints.
measure-pod: image-root ## Measure the program out of the image: with nothing, installing EXTENSIONS=20, at rest for SILENCE_SECONDS=300
	OLM_IMAGE_ROOT="$(IMAGE_ROOT)" EXTENSIONS=$(or $(EXTENSIONS),20) $(MAKE) silence

.PHONY: silence-corpus
silence-corpus: built ## Measure the controller with the real catalog beside the checkout
	$(CARGO) test --locked --workspace --test corpus -- --ignored --nocapture silence

.PHONY: bench
bench: prerequisites ## Measure resolution, rendering and ingest; real data beside the checkout if it is there (OLM_SHARED)
	$(CARGO) bench --locked --package olm-bench

.PHONY: fuzz
# Without a sanitizer: there is no unsafe code to watch, and stable Rust will do.
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

##@ Keep it clean

.PHONY: lint
lint: prerequisites ## Formatting, clippy, rustdoc, Go vet, shell, workflows and generated files
	@hack/tools.sh shellcheck actionlint cargo-deny
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings
	$(CARGO) clippy --locked --workspace --test '*' -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --locked --workspace --no-deps --quiet
	test -z "$$(gofmt -l hack/local-cluster hack/signatures)"
	hack/local-cluster/go.sh vet ./...
	shellcheck hack/*.sh hack/local-cluster/*.sh .github/actions/*/*.sh .ci/run
	actionlint
	$(CARGO) deny --config hack/deny.toml check bans licenses sources
	$(CARGO) run --locked --quiet --package xtask -- manifests --check

.PHONY: fmt
fmt: ## Repair formatting
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
