# The commands of the project. Each installs what it needs on a fresh Debian 12 or later.

CARGO ?= cargo
PREFIX ?= /usr/local

.PHONY: help build demo install uninstall deb test test-all lint package bench bench-containers samples flame-graph faults hostile fuzz fuzz-images soak clean

help: ## Show these commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | column -t -s "$$(printf '\t')"

build: ## Build the command, optimised and stripped: plyfs and plyfs-tools in target/release, debug data in *.debug beside them
	@scripts/setup build
	$(CARGO) build --release --package plyfs-cli
	@scripts/strip-release target/release/plyfs target/release/plyfs-tools

# These build nothing: `sudo make install` needs no cargo, and leaves nothing of root in target.
install: ## Install what `make build` has built into PREFIX (/usr/local) below DESTDIR: programs, helpers of mount(8), man pages, completions, samples
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install

uninstall: ## Remove what `make install` has installed with the same PREFIX and DESTDIR
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install --uninstall

deb: build ## Make the package for Debian: target/package/plyfs_VERSION_ARCHITECTURE.deb
	@scripts/deb

demo: build ## Mount a sample stack, work in it, show the audit log, unmount
	@scripts/setup demo
	@scripts/demo target/release/plyfs

test: ## Run every test, with a covering part of the combinations, a quarter of an hour after a build; print the counts
	@scripts/setup test
	@scripts/setup guest || echo "no User-Mode Linux here: unions over FAT and NFS are not tested"
	@scripts/test quick

test-all: ## Run everything: all combinations, stop points and seeds, soak, fuzzing, Linux 6.1 in a guest
	@scripts/setup test
	@scripts/setup guest
	@scripts/test all

lint: ## Check format, lints, documentation and style, and that the seeded mistakes still apply
	@scripts/setup build
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --quiet
	@scripts/style
	@scripts/faults --check

package: ## Make the packages of the crates that are published, and build each from its package alone: target/package
	@scripts/setup build
	@scripts/package

bench: build ## Time the workloads, the unions, descriptions and FAT on Plyfs, the lower file system and the peers; results in docs/bench
	@scripts/bench-setup
	$(CARGO) build --release --package bench
	$(if $(BENCH),target/release/bench $(BENCH),target/release/bench; first=$$?; \
		target/release/bench union || first=1; target/release/bench fat || first=1; target/release/bench fist && exit $$first)

bench-containers: build ## Time the steps of a build by buildah with plyfs-overlayfs, fuse-overlayfs and overlayfs, as root
	@scripts/setup test
	$(CARGO) build --release --package plyfs-cli
	@scripts/bench-containers

samples: ## Count the lines of the samples in FiST and in Rust: docs/bench/samples.md
	@scripts/setup build
	$(CARGO) run --quiet --package comparison >docs/bench/samples.md

flame-graph: ## Draw where servers spend their time in a workload (BENCH): target/flame-graph/plyfs.svg
	@scripts/setup flame-graph
	@scripts/bench-setup
	@scripts/flame-graph $(BENCH)

faults: ## Make each of the seeded mistakes (FAULTS: 01 02 ...) in a copy of the project, and see that a test notices
	@scripts/setup test
	@scripts/faults $(FAULTS)

hostile: ## Try every call on every object as every user, in mounts and beside them (HOSTILE_SHARE=N: one of N)
	@scripts/setup test
	HOSTILE_SHARE=$(or $(HOSTILE_SHARE),1) $(CARGO) test --package suite --test hostile

fuzz: ## Give the decoder of requests 100 million random messages, the tools of FiST damaged and random descriptions, and unions damaged branches
	@scripts/setup build
	PLYFS_FUZZ_SECONDS=300 $(CARGO) test --release --package plyfs-fist --test mutants -- --nocapture
	FIST_TIERS_STATEMENTS=1000000 $(CARGO) test --release --package plyfs-fist --test tiers -- --nocapture random
	UNION_DAMAGE=1000000 $(CARGO) test --release --package plyfs-layers --test union_damage -- --nocapture
	FUZZ_ROUNDS=100000000 $(CARGO) test --release --package plyfs-frontends --lib random_bytes_never_panic

fuzz-images: ## Give damaged images to FAT and ISO 9660, guided by coverage (RUNS=N: 10000000 of each)
	@scripts/setup build
	@scripts/fuzz-images $(or $(RUNS),10000000)

soak: ## Work on mounts for MINUTES (60), and see that servers hold no more and more memory, descriptors or threads
	@scripts/setup test
	@scripts/soak $(MINUTES)

clean: ## Remove what was built
	$(CARGO) clean
