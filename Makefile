# Everything here needs a Rust toolchain and a C compiler; clients and brokers that are missing are named and passed over.
# `make` lists what there is.

CARGO ?= cargo
# The program as `unit` builds it. For one package alone cargo would build everything again, since dependencies have fewer
# features there.
PROGRAM = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/debug/isomer
LAB = $(PROGRAM)-lab
# Figures are taken with optimisation across crates; a first look does not wait for that.
DIST = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/dist
FAST_LAB = $(DIST)/isomer-lab
# Where smoke runs leave their files; cargo's own folder, so that it is ignored and cleaned with it.
OUT = $(or $(CARGO_TARGET_DIR),target)/smoke
# Tests wait for disks and for each other more than they compute.
export RUST_TEST_THREADS ?= 6

.PHONY: help demo test bench clients hunt cluster format lint installed unit program dist docs smoke

help:
	@echo "make demo    replay a production trace on a database that rearranges itself (30 s, live)"
	@echo "make test    formatting, lints, all tests, documentation, short runs of the program"
	@echo "make clients psql, pgbench, sysbench, Python, Java and TPC-C against a server whose design changes,"
	@echo "             and beside a PostgreSQL; and PostgreSQL's regression scripts at both (half an hour)"
	@echo "make hunt    100 thousand random statements beside a PostgreSQL; ten minutes each of damaged statements and"
	@echo "             messages; 200 power cuts; 50 thousand seeds of the simulator, ten thousand each with backups,"
	@echo "             with sites that are lost, with nodes on Kafka, serializable, and with two of these at a time (two"
	@echo "             hours); five minutes each of clients whose"
	@echo "             histories are checked while the design changes, the server is killed, and stands still"
	@echo "make cluster three processes and three brokers of Kafka on machines that are network namespaces, under load:"
	@echo "             killed, stopped, cut off from each other, without room; what clients saw is judged. Then"
	@echo "             docs/three-nodes.md is followed, and a benchmark (half an hour; SECONDS=3600 for longer). As root;"
	@echo "             what takes root is passed over otherwise"
	@echo "make bench   all benchmarks, as lines of JSON (minutes, 4 GB of memory)"
	@echo
	@echo "make demo ARGS='--seconds 5 --plain'    options of the demo: isomer demo --help"

# The demo keeps its rows in memory: it needs no client of Kafka.
demo:
	$(CARGO) run --release --package isomer --no-default-features -- demo $(ARGS)

test: format lint installed unit docs smoke
	ISOMER=$(PROGRAM) clients/run --short
	ISOMER=$(PROGRAM) clients/run --short --isolation serializable pgbench tpcc

# What tests run beside the program: clients, and a Kafka broker.
installed:
	clients/install --short
	clients/kafka || true

format:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --workspace --all-targets -- -D warnings

# Documentation examples are among the tests. Thread schedules need a build of their own.
unit:
	$(CARGO) test --workspace
	$(CARGO) test --package isomer-store --features shuttle --test schedules

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

dist:
	$(CARGO) build --profile dist --package isomer --package isomer-lab-cli

program:
	$(CARGO) test --quiet --workspace --test commands --no-run

smoke: program
	rm -rf $(OUT)
	mkdir -p $(OUT)
	$(PROGRAM) demo --seconds 4 --partition-keys 1 --plain --plot $(OUT)/demo.svg
	$(LAB) bench ycsb --rows 10000 --seconds 1
	$(LAB) bench smallbank --rows 2000 --seconds 1
	$(LAB) bench tpcc-procedures --full --warehouses 2 --customers 30 --items 200 --seconds 1
	$(LAB) bench twitter --users 500 --seconds 1
	$(LAB) bench trace --seconds 1
	$(LAB) bench compare --rows 5000 --rounds 2 --turn-ms 50
	$(LAB) bench route --partitions 1000
	$(LAB) bench ordered --clients 8 --rows 1000 --seconds 1
	$(LAB) bench store --rows 20000 --partitions 20 --turn-ms 20
	$(LAB) bench plan --smoke
	$(LAB) bench sql --alone --scale 0.001 --rows 1000 --runs 1
	$(LAB) bench moves --only smallbank-spike --accounts 50 --warehouses 12 --customers 10 --items 100 --switches 2 --rounds 1 --plot $(OUT)/moves.svg
	$(LAB) bench ycsb --rows 10000 --seconds 1 --threads 16 --folder $(OUT)/ycsb
	$(PROGRAM) design check $(OUT)/ycsb
	$(LAB) sim --seeds 1..20
	$(LAB) sim --seeds 1..20 --backups
	$(LAB) sim --seeds 1..20 --failover
	$(LAB) sim --seeds 1..20 --cluster
	$(LAB) sim --seeds 1..20 --isolation serializable
	$(LAB) sim --seeds 1..20 --isolation ordered
	$(LAB) run all --smoke --out $(OUT)/lab
	$(LAB) run hermes --smoke --out $(OUT)/lab
	$(PROGRAM) demo --isolation ordered --sites 3 --seconds 9
	$(LAB) ablation --smoke --out $(OUT)/lab

clients:
	clients/install
	PROFILE=dist clients/run

# What it finds repeats with its seed, which is shown.
SEED ?= $(shell date +%s)
hunt: dist
	ISOMER_SEED=$(SEED) ISOMER_STATEMENTS=100000 $(CARGO) test --package isomer-server --test differential -- --nocapture
	ISOMER_SEED=$(SEED) ISOMER_FUZZ_SECONDS=600 $(CARGO) test --package isomer-server --test fuzz -- --nocapture
	ISOMER_SEED=$(SEED) ISOMER_CUTS=200 $(CARGO) test --package isomer --test power_cuts -- --nocapture
	$(FAST_LAB) sim --seeds $(SEED)..$$(($(SEED) + 49999))
	$(FAST_LAB) sim --seeds $(SEED)..$$(($(SEED) + 9999)) --backups
	$(FAST_LAB) sim --seeds $(SEED)..$$(($(SEED) + 9999)) --failover --faults none
	$(FAST_LAB) sim --seeds $(SEED)..$$(($(SEED) + 9999)) --cluster
	$(FAST_LAB) sim --seeds $(SEED)..$$(($(SEED) + 9999)) --isolation serializable
	$(FAST_LAB) sim --seeds $(SEED)..$$(($(SEED) + 9999)) --isolation ordered
	$(FAST_LAB) sim --seeds $(SEED)..$$(($(SEED) + 9999)) --cluster --backups
	$(FAST_LAB) sim --seeds $(SEED)..$$(($(SEED) + 9999)) --failover --isolation serializable
	$(FAST_LAB) sim --seeds $(SEED)..$$(($(SEED) + 9999)) --reshard
	$(FAST_LAB) sim --seeds $(SEED)..$$(($(SEED) + 9999)) --reshard --cluster
	ISOMER_SEED=$(SEED) ISOMER_HISTORY_SECONDS=300 $(CARGO) test --package isomer --test histories -- --nocapture --test-threads 1

# What happens to machines and brokers, and what clients saw of it; the page on three machines; and figures.
cluster: dist
	clients/kafka
	clients/three-nodes $(DIST)/isomer || [ $$? -eq 77 ]
	ISOMER_SEED=$(SEED) ISOMER_HISTORY_SECONDS=$(or $(SECONDS),1200) $(CARGO) test --package isomer --test histories cluster -- --ignored --nocapture
	$(FAST_LAB) bench cluster --json

bench: dist
	$(FAST_LAB) bench store --json
	$(FAST_LAB) bench plan --json
	$(FAST_LAB) bench ycsb --json
	$(FAST_LAB) bench ycsb --json --skew zipf:0.75
	$(FAST_LAB) bench smallbank --json
	$(FAST_LAB) bench trace --json
	$(FAST_LAB) bench moves --json
	$(FAST_LAB) bench ordered --json
	$(FAST_LAB) bench sql --scale 0.1 --json
