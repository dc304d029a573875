# Everything here needs a Rust toolchain and a C compiler; clients and brokers that are missing are named and passed over.
# `make` lists what there is.

CARGO ?= cargo
# The program as `unit` builds it. For one package alone cargo would build everything again, since dependencies have fewer
# features there.
PROGRAM = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/debug/isomer
FAST = $(CARGO) run --quiet --release --package isomer --
# Where smoke runs leave their files; cargo's own folder, so that it is ignored and cleaned with it.
OUT = $(or $(CARGO_TARGET_DIR),target)/smoke
# Tests wait for disks and for each other more than they compute.
export RUST_TEST_THREADS ?= 6

.PHONY: help demo test bench clients hunt cluster format lint installed unit program docs smoke

help:
	@echo "make demo    replay a production trace on a database that rearranges itself (30 s, live)"
	@echo "make test    formatting, lints, all tests, documentation, short runs of the program"
	@echo "make clients psql, pgbench, sysbench, Python, Java and TPC-C against a server whose design changes,"
	@echo "             and beside a PostgreSQL; and PostgreSQL's regression scripts at both (half an hour)"
	@echo "make hunt    100 thousand random statements beside a PostgreSQL; ten minutes each of damaged statements and"
	@echo "             messages; 200 power cuts; 50 thousand seeds of the simulator, ten thousand each with backups,"
	@echo "             with sites that are lost, with nodes on Kafka, and serializable (an hour); five minutes each of clients whose"
	@echo "             histories are checked while the design changes, the server is killed, and stands still"
	@echo "make cluster three processes and three brokers of Kafka on machines that are network namespaces, under load:"
	@echo "             killed, stopped, cut off from each other, without room; what clients saw is judged. Then"
	@echo "             docs/three-nodes.md is followed, and a benchmark (half an hour; SECONDS=3600 for longer). As root;"
	@echo "             what takes root is passed over otherwise"
	@echo "make bench   all benchmarks, as lines of JSON (minutes, 4 GB of memory)"
	@echo
	@echo "make demo ARGS='--seconds 5 --plain'    options of the demo: isomer demo --help"

demo:
	$(CARGO) build --release --package isomer
	$(FAST) demo $(ARGS)

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

program:
	$(CARGO) test --quiet --workspace --test commands --no-run

smoke: program
	rm -rf $(OUT)
	mkdir -p $(OUT)
	$(PROGRAM) demo --seconds 4 --partition-keys 1 --plain --plot $(OUT)/demo.svg
	$(PROGRAM) bench ycsb --rows 10000 --seconds 1
	$(PROGRAM) bench smallbank --rows 2000 --seconds 1
	$(PROGRAM) bench tpcc-procedures --full --warehouses 2 --customers 30 --items 200 --seconds 1
	$(PROGRAM) bench twitter --users 500 --seconds 1
	$(PROGRAM) bench trace --seconds 1
	$(PROGRAM) bench compare --rows 5000 --rounds 2 --turn-ms 50
	$(PROGRAM) bench route --partitions 1000
	$(PROGRAM) bench store --rows 20000 --partitions 20 --turn-ms 20
	$(PROGRAM) bench plan --smoke
	$(PROGRAM) bench moves --only smallbank-spike --accounts 50 --warehouses 12 --customers 10 --items 100 --switches 2 --rounds 1 --plot $(OUT)/moves.svg
	$(PROGRAM) bench ycsb --rows 10000 --seconds 1 --threads 16 --folder $(OUT)/ycsb
	$(PROGRAM) design check $(OUT)/ycsb
	$(PROGRAM) sim --seeds 1..20
	$(PROGRAM) sim --seeds 1..20 --backups
	$(PROGRAM) sim --seeds 1..20 --failover
	$(PROGRAM) sim --seeds 1..20 --cluster
	$(PROGRAM) sim --seeds 1..20 --isolation serializable
	$(PROGRAM) lab run all --smoke --out $(OUT)/lab
	$(PROGRAM) lab run hermes --smoke --out $(OUT)/lab
	$(PROGRAM) demo --isolation serializable --seconds 2 --record $(OUT)/ordered.jsonl
	$(PROGRAM) route $(OUT)/ordered.jsonl --recorded
	$(PROGRAM) lab ablation --smoke --out $(OUT)/lab

clients:
	clients/install
	PROFILE=release clients/run

# What it finds repeats with its seed, which is shown.
SEED ?= $(shell date +%s)
hunt:
	ISOMER_SEED=$(SEED) ISOMER_STATEMENTS=100000 $(CARGO) test --package isomer-server --test differential -- --nocapture
	ISOMER_SEED=$(SEED) ISOMER_FUZZ_SECONDS=600 $(CARGO) test --package isomer-server --test fuzz -- --nocapture
	ISOMER_SEED=$(SEED) ISOMER_CUTS=200 $(CARGO) test --package isomer --test power_cuts -- --nocapture
	$(FAST) sim --seeds $(SEED)..$$(($(SEED) + 49999))
	$(FAST) sim --seeds $(SEED)..$$(($(SEED) + 9999)) --backups
	$(FAST) sim --seeds $(SEED)..$$(($(SEED) + 9999)) --failover --faults none
	$(FAST) sim --seeds $(SEED)..$$(($(SEED) + 9999)) --cluster
	$(FAST) sim --seeds $(SEED)..$$(($(SEED) + 9999)) --isolation serializable
	ISOMER_SEED=$(SEED) ISOMER_HISTORY_SECONDS=300 $(CARGO) test --package isomer --test histories -- --nocapture --test-threads 1

# What happens to machines and brokers, and what clients saw of it; the page on three machines; and figures.
cluster:
	clients/kafka
	$(CARGO) build --release --package isomer
	clients/three-nodes $(or $(CARGO_TARGET_DIR),target)/release/isomer || [ $$? -eq 77 ]
	ISOMER_SEED=$(SEED) ISOMER_HISTORY_SECONDS=$(or $(SECONDS),1200) $(CARGO) test --package isomer --test histories cluster -- --ignored --nocapture
	$(FAST) bench cluster --json

bench:
	$(FAST) bench store --json
	$(FAST) bench plan --json
	$(FAST) bench ycsb --json
	$(FAST) bench ycsb --json --skew zipf:0.75
	$(FAST) bench smallbank --json
	$(FAST) bench trace --json
	$(FAST) bench moves --json
