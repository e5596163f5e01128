# A thin layer over cargo. `make help` lists the targets.
#
# `run` and `test` share cargo's dev profile on purpose. It optimizes the libraries that the bytes of every request go through
# (Cargo.toml), so the gateway is fast enough to try, and no others: it compiles in a few minutes on two cores, while the release profile's
# LTO takes some 25 minutes there, and each of the two targets reuses what the other compiled. Use `make release` for real traffic and `make bench` to measure.

.DEFAULT_GOAL := help
.PHONY: help deps run release dist test test-all test-clients bench fmt lint

# The directory of rustup, for a shell that was opened before Rust was installed.
export PATH := $(PATH):$(HOME)/.cargo/bin

CONF ?= conf/turnpike.yaml
# Many tests wait for another process, so running more of them at a time than there are CPUs is faster; with very many they disturb each other.
export RUST_TEST_THREADS ?= 4

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1\t\2/' | expand -t 18

deps: ## install what the build needs (above all cmake), or print what to install
	@.ci/deps

run: deps ## build and start the gateway with conf/turnpike.yaml and the built-in provider; CONF=FILE for another
	cargo run --locked -- run -c $(CONF)

ifdef TARGET
# For another machine, with the cross compiler of the distribution (Debian: gcc-aarch64-linux-gnu, `rustup target add` $(TARGET)).
export CARGO_BUILD_TARGET := $(TARGET)
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER ?= aarch64-linux-gnu-gcc
RELEASED := target/$(TARGET)/release/turnpike
else
RELEASED := target/release/turnpike
# The linker that rustc brings along lays the functions that start and requests run through side by side (benches/layout/make.py).
ifeq ($(shell uname -sm),Linux x86_64)
LAYOUT := -- -C "link-arg=-Wl,-T,$(CURDIR)/benches/layout/functions.ld"
endif
endif

release: deps ## build the binary to install: target/release/turnpike
	cargo rustc --locked --release --bin turnpike $(LAYOUT)

dist: release ## build the packages to install elsewhere, in target/dist; TARGET=aarch64-unknown-linux-gnu for arm64
ifdef TARGET
	env --unset=CARGO_BUILD_TARGET cargo build --locked
	dist/package.sh $(RELEASED) target/dist $(TARGET) target/debug/turnpike
else
	dist/package.sh $(RELEASED) target/dist
endif

test: deps ## run every test, including the SDK tests, as CI does
	.ci/test

test-all: deps ## every test at full length: thousands of property cases, a longer soak, every client at every provider
	TEST_ALL=1 TEST_CLIENTS=all PROPTEST_CASES=4096 .ci/test

test-clients: deps ## run every client library and every coding agent against every provider; make test runs half of the libraries
	TEST_CLIENTS=all cargo test --locked --test turnpike -- sdk:: clients::

bench: deps ## measure the gateway against direct calls and a plain proxy; routing; translation
	cargo bench --locked

fmt: ## format the code
	cargo fmt

lint: deps ## check formatting and lints, as CI does
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
