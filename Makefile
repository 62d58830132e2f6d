# fsarena: `make run` answers a question, `make test` runs the whole test suite.

CARGO   ?= cargo
TARGET  := $(or $(CARGO_TARGET_DIR),target)
# Another machine to build for: aarch64-unknown-linux-gnu. RUNNER runs its programs here: qemu-aarch64-static.
TARGET_TRIPLE ?=
RUNNER  ?=
OUT     := $(TARGET)/$(if $(TARGET_TRIPLE),$(TARGET_TRIPLE)/)release
FSARENA := $(OUT)/fsarena
SHARE   := $(OUT)/share
ARGS    ?=

.PHONY: all build mpi test-mpi man install uninstall deb tarball release run setup test test-long fuzz hostile kill lint deny bench doc docs clean

all: man

# Static: it is also what guests boot into, whatever libraries are here, and runs on any machine it is copied to.
# The linker's map beside it shows the tests of the shipped program that no name service is linked.
build:
	$(CARGO) rustc --release --package fsarena --bin fsarena $(addprefix --target ,$(TARGET_TRIPLE)) -- \
		-C target-feature=+crt-static -C link-arg=-Wl,-Map=$(abspath $(OUT))/fsarena.map

# One load from many clients: needs an MPI library (Debian: libopenmpi-dev openmpi-bin libclang-dev).
MPI := --package fsarena-mpi --features mpi
mpi:
	$(CARGO) build --release $(MPI)

# Its tests, by the mpirun on PATH.
test-mpi:
	env --default-signal=HUP,INT,QUIT $(CARGO) test $(MPI)

# Manual pages and completions, by the binary itself, into target/release/share.
man: build
	rm -rf $(SHARE) && mkdir -p $(SHARE)/man/man1
	$(RUNNER) $(FSARENA) man $(SHARE)/man/man1
	for shell in bash zsh fish nushell; do $(RUNNER) $(FSARENA) completions $$shell > $(SHARE)/fsarena.$$shell || exit; done

# Installs what is built, and builds only if nothing is: after `make`, root needs no Rust for `make install`.
PREFIX  ?= /usr/local
DESTDIR ?=
ZSH     ?= share/zsh/site-functions
AT      := $(DESTDIR)$(PREFIX)
COMPLETIONS := share/bash-completion/completions/fsarena $(ZSH)/_fsarena share/fish/vendor_completions.d/fsarena.fish \
	share/nushell/vendor/autoload/fsarena.nu
install: $(SHARE)/fsarena.bash
	install -D -m 755 $(FSARENA) $(AT)/bin/fsarena
	install -D -m 644 -t $(AT)/share/man/man1 $(SHARE)/man/man1/*.1
	set $(COMPLETIONS); for shell in bash zsh fish nushell; do \
		install -D -m 644 $(SHARE)/fsarena.$$shell $(AT)/$$1 && shift || exit; done
	install -D -m 644 -t $(AT)/share/doc/fsarena README.md CHANGELOG.md SECURITY.md CONTRIBUTING.md LICENSE-*
	find docs -type f -exec install -D -m 644 {} $(AT)/share/doc/fsarena/{} \;

$(SHARE)/fsarena.bash:
	$(MAKE) man

uninstall:
	rm -f $(AT)/bin/fsarena $(AT)/share/man/man1/fsarena.1 $(AT)/share/man/man1/fsarena-*.1 $(addprefix $(AT)/,$(COMPLETIONS))
	rm -rf $(AT)/share/doc/fsarena

# Packages, into target/dist. Their files are as old as the last commit, so the same source makes the same bytes.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2> /dev/null || stat -c %Y Cargo.toml)
DIST    := $(TARGET)/dist
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
NAME    := fsarena-$(VERSION)-$(or $(TARGET_TRIPLE),$(shell rustc -vV 2> /dev/null | sed -n 's/^host: //p'))
DOC      = $(STAGE)/usr/share/doc/fsarena

tarball: STAGE := $(OUT)/tarball
tarball: man
	rm -rf $(STAGE) && mkdir -p $(DIST)
	$(MAKE) install DESTDIR=$(STAGE)/$(NAME) PREFIX=
	contrib/third-party $(TARGET_TRIPLE) > $(STAGE)/$(NAME)/share/doc/fsarena/THIRD-PARTY
	tar -C $(STAGE) -c --sort=name --mtime=@$(SOURCE_DATE_EPOCH) --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX $(NAME) \
		| gzip -9n > $(DIST)/$(NAME).tar.gz

# Needs cargo-deb: cargo install cargo-deb
deb: STAGE := $(OUT)/deb
deb: man
	rm -rf $(STAGE) && mkdir -p $(DIST)
	$(MAKE) install DESTDIR=$(STAGE) PREFIX=/usr ZSH=share/zsh/vendor-completions
	rm $(DOC)/LICENSE-*
	contrib/third-party $(TARGET_TRIPLE) | gzip -9n > $(DOC)/THIRD-PARTY.gz
	gzip -9n $(STAGE)/usr/share/man/man1/*.1
	gzip -9n < CHANGELOG.md > $(DOC)/changelog.gz && rm $(DOC)/CHANGELOG.md
	printf 'fsarena (%s-1) unstable; urgency=medium\n\n  * Version %s: see changelog.gz.\n\n -- %s  %s\n' $(VERSION) $(VERSION) \
		"$$(sed -n 's/^maintainer = "\(.*\)"/\1/p' crates/cli/Cargo.toml)" "$$(date -uR -d @$(SOURCE_DATE_EPOCH))" \
		| gzip -9n > $(DOC)/changelog.Debian.gz
	install -D -m 644 contrib/debian/lintian-overrides $(STAGE)/usr/share/lintian/overrides/fsarena
	$(CARGO) deb --no-build --no-dbgsym --package fsarena $(addprefix --target ,$(TARGET_TRIPLE)) --output $(DIST)/

# Everything twice from two directories, compared, with checksums; see docs/contributing/releasing.md.
release:
	contrib/release

# mkfs programs of every filesystem this kernel mounts, squid and PostgreSQL: through apt when root, else says what to install.
setup: build
	$(FSARENA) doctor --install

run: setup
	$(FSARENA) run $(ARGS)

# Tests run as root where they can: real loop mounts. What needs root is skipped, and says so, elsewhere.
# Most of their time is waiting, for disks and guests and programs, so more go on at a time than there are CPUs. What
# they lack is installed by the binary that they try: another build of it would have other features, and be another.
# Tests send signals, which a job in the background or under nohup would hand down ignored.
# A test that this machine cannot run notes what it lacks in FSARENA_SKIPS; the last lines count and name these.
test: export RUST_TEST_THREADS ?= $(shell echo $$((3 * $$(nproc))))
test: export FSARENA_SKIPS ?= $(abspath $(TARGET))/skipped-tests
test:
	mkdir -p $(dir $(FSARENA_SKIPS)) && : > $(FSARENA_SKIPS)
	$(CARGO) test --workspace --tests --no-run
	-$(TARGET)/debug/fsarena doctor --install
	env --default-signal=HUP,INT,QUIT $(CARGO) test --workspace --tests
	$(CARGO) test --workspace --doc
	@sort -u $(FSARENA_SKIPS) | sed 's/^\([^\t]*\)\t/skipped: \1, which needs: /'; \
		echo "$$(sort -u $(FSARENA_SKIPS) | wc -l) tests skipped"

# Whether filesystems measure the same after a minute more of idling: 3 filesystems, 2 tasks, 8 rounds. Needs root; at
# most 2 hours.
test-long: build
	$(FSARENA) selftest --here --idle
	contrib/test-slurm $(FSARENA)
	! command -v mpicc.mpich > /dev/null || MPICC=mpicc.mpich FSARENA_MPIRUN=mpirun.mpich \
		$(MAKE) test-mpi CARGO_TARGET_DIR=$(abspath $(TARGET))/mpich

# Everything that reads foreign input, by libFuzzer, which stable Rust suffices for: FUZZ_RUNS inputs for each of
# FUZZ_TARGETS. An input that fails is in target/fuzz/faults; once it is mended, its place is the target's corpus.
FUZZ_RUNS    ?= 100000
FUZZ_TARGETS ?=
FUZZ_DIR     := $(abspath $(TARGET))/fuzz
FUZZ_HOST     = $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ          = $(FUZZ_DIR)/$(FUZZ_HOST)/fuzz/fuzz
fuzz: export RUSTFLAGS := -Cpasses=sancov-module $(addprefix -Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares)
fuzz:
	$(CARGO) build --profile fuzz --package fsarena-fuzz --features libfuzzer --target $(FUZZ_HOST) --target-dir $(FUZZ_DIR)
	@mkdir -p $(FUZZ_DIR)/faults; failed=; for target in $(or $(FUZZ_TARGETS),$$($(FUZZ) 2> /dev/null)); do \
		mkdir -p $(FUZZ_DIR)/corpus/$$target; \
		FUZZ_TARGET=$$target nice env --ignore-signal=PIPE $(FUZZ) -runs=$(FUZZ_RUNS) -timeout=20 -rss_limit_mb=1024 \
			-print_final_stats=1 -artifact_prefix=$(FUZZ_DIR)/faults/$$target- \
			$(FUZZ_DIR)/corpus/$$target crates/fuzz/corpus/$$target > $(FUZZ_DIR)/$$target.log 2>&1 || failed="$$failed $$target"; \
		sed -n "s/^stat::number_of_executed_units: */$$target: inputs /p; s/^stat::peak_rss_mb: */$$target: MB at most /p" \
			$(FUZZ_DIR)/$$target.log; \
	done; \
	[ -z "$$failed" ] || { echo "failed:$$failed; see $(FUZZ_DIR)/TARGET.log and $(FUZZ_DIR)/faults" >&2; exit 1; }

# --erase on 10,000 generated device set-ups: nothing goes that was not fsarena's own or named. Needs root, half an hour.
hostile: export FSARENA_HOSTILE ?= 10000
hostile:
	$(CARGO) test --package fsarena --test it -- hostile:: --nocapture

# SIGKILL at 300 random instants of runs, guests and watches; recover and resume lose nothing. Needs root, half an hour.
kill: export FSARENA_KILLS ?= 300
kill:
	env --default-signal=HUP,INT,QUIT $(CARGO) test --package fsarena --test it -- kill:: --nocapture

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	! command -v mpicc > /dev/null || $(CARGO) clippy $(MPI) --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

# Needs cargo-deny: cargo install cargo-deny
deny:
	$(CARGO) deny check licenses bans sources

# Speed, against peers measured in the same run. Prints ratios; asserts nothing.
bench: setup
	$(CARGO) bench --workspace

# The book, into target/book. Needs mdbook.
docs:
	@command -v mdbook > /dev/null || { echo "mdbook is missing. Install it: cargo install mdbook" >&2; exit 1; }
	mdbook build --dest-dir "$(abspath $(TARGET))/book" docs

# The documentation of the code.

doc:
	$(CARGO) doc --workspace --no-deps

clean:
	$(CARGO) clean
