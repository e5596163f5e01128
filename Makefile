# Thin: underneath everything is plain cargo. `make help` lists the targets.
#
# `run` and `test` share cargo's dev profile on purpose. It optimises the dependencies a little (Cargo.toml), so the gateway
# is quick enough to try, it compiles in a few minutes on two cores where the release profile's LTO takes much longer, and
# whoever ran one has already compiled for the other. Serve real traffic from `make release`; measure with `make bench`.

.DEFAULT_GOAL := help
.PHONY: help deps run release test bench fmt lint

# rustup's own place, for a shell that has not been opened anew since Rust was installed.
export PATH := $(PATH):$(HOME)/.cargo/bin

CONF ?= conf/turnpike.yaml
# Most tests wait for another process: more of them at a time than there are CPUs end sooner.
export RUST_TEST_THREADS ?= 8

help: ## say what there is
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/make \1\t\2/' | expand -t 16

deps: ## see to what the build needs (cmake above all), or say what to install
	@.ci/deps

run: deps ## build and start the gateway with conf/turnpike.yaml and the built-in provider; CONF=FILE for another
	cargo run --locked -- run -c $(CONF)

release: deps ## build the binary to install: target/release/turnpike
	cargo build --locked --release

test: deps ## every test, the SDKs included; what CI runs
	cargo test --locked

bench: deps ## gateway against direct and against a plain proxy, routing, translation
	cargo bench --locked

fmt: ## format
	cargo fmt

lint: deps ## formatting and lints, as CI checks them
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
