# fsarena: `make run` answers a question, `make test` runs the whole test suite.

CARGO   ?= cargo
TARGET  := $(or $(CARGO_TARGET_DIR),target)
# Under sudo, root often has no Rust. Then the user who called sudo builds, with theirs, and what is built stays theirs.
ifneq ($(and $(SUDO_USER),$(if $(shell command -v $(firstword $(CARGO))),,no cargo)),)
USER_HOME := $(shell getent passwd $(SUDO_USER) | cut -d: -f6)
export PATH := $(PATH):$(USER_HOME)/.cargo/bin
export CARGO_HOME ?= $(USER_HOME)/.cargo
export RUSTUP_HOME ?= $(USER_HOME)/.rustup
AS_USER := runuser -u $(SUDO_USER) -- env HOME=$(USER_HOME)
endif
# Another machine to build for: aarch64-unknown-linux-gnu. RUNNER runs its programs here: qemu-aarch64-static.
TARGET_TRIPLE ?=
RUNNER  ?=
OUT     := $(TARGET)/$(if $(TARGET_TRIPLE),$(TARGET_TRIPLE)/)release
FSARENA := $(OUT)/fsarena
HOST    := $(shell PATH="$(PATH)" $(addprefix RUSTUP_HOME=,$(RUSTUP_HOME)) rustc -vV 2> /dev/null | sed -n 's/^host: //p')
SHARE   := $(OUT)/share
ARGS    ?=

.PHONY: all build mpi test-mpi man install uninstall deb tarball release run setup test test-long test-mapper fuzz hostile kill lint deny bench doc docs guide clean

all: man

# Static: it is also what guests boot into, whatever libraries are here, and runs on any machine it is copied to.
# The linker's map beside it shows the tests of the shipped program that no name service is linked.
build:
	$(AS_USER) $(CARGO) rustc --release --package fsarena --bin fsarena $(addprefix --target ,$(TARGET_TRIPLE)) -- \
		-C target-feature=+crt-static -C link-arg=-Wl,-Map=$(abspath $(OUT))/fsarena.map

# One load from many clients: needs an MPI library (Debian: libopenmpi-dev openmpi-bin libclang-dev).
MPI := --package fsarena-mpi --features mpi
mpi:
	$(CARGO) build --release $(MPI)

# Its tests, by the mpirun on PATH.
test-mpi:
	contrib/install-needs mpi
	if command -v mpicc > /dev/null; then env --default-signal=HUP,INT,QUIT $(CARGO) test --no-fail-fast $(MPI); \
		else echo "skipped: fsarena-mpi, which needs: program mpicc"; fi

# Manual pages and completions, by the binary itself, into target/release/share.
man: build
	$(AS_USER) rm -rf $(SHARE) && $(AS_USER) mkdir -p $(SHARE)/man/man1
	$(AS_USER) $(RUNNER) $(FSARENA) man $(SHARE)/man/man1
	for shell in bash zsh fish nushell; do \
		$(AS_USER) sh -c "$(RUNNER) $(FSARENA) completions $$shell > $(SHARE)/fsarena.$$shell" || exit; done

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

# Packages, into target/dist. Their files are as old as the last commit, so the same source makes the same bytes. Only for
# packages: with another time, cargo compiles SQLite again.
tarball deb release: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2> /dev/null || stat -c %Y Cargo.toml)
DIST    := $(TARGET)/dist
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
NAME    := fsarena-$(VERSION)-$(or $(TARGET_TRIPLE),$(HOST))
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
	FSARENA=$(FSARENA) contrib/install-needs run

# Without root and without QEMU only the filesystem below this directory can be measured, and nothing compared.
DIRECTORY_ONLY = [ "$$(id -u)" -ne 0 ] && ! command -v qemu-system-x86_64 > /dev/null
run: setup
	$(FSARENA) run $(or $(ARGS),$$(if $(DIRECTORY_ONLY); then echo --on dir:.; fi))

# Tests run as root where they can: real loop mounts. What needs root is skipped, and says so, elsewhere.
# They try the very file that `make install` installs. What tests a crate from inside is static too: a build for an explicit
# target, since without it plain flags would reach the macros that run inside the compiler.
# Most of their time is waiting, for disks and guests and programs, so more go on at a time than there are CPUs.
# Tests send signals, which a job in the background or under nohup would hand down ignored.
# A test that this machine cannot run notes what it lacks in FSARENA_SKIPS; the last lines count and name these.
HOST_FLAGS    = CARGO_TARGET_$(shell echo $(HOST) | tr a-z- A-Z_)_RUSTFLAGS="-C target-feature=+crt-static"
STATIC_TEST   = env --default-signal=HUP,INT,QUIT $(HOST_FLAGS) $(CARGO) test --target $(HOST) --no-fail-fast
# What `make install` installs, into a directory of the tests.
INSTALLED    := $(abspath $(TARGET))/installed
test: export RUST_TEST_THREADS ?= $(shell echo $$((3 * $$(nproc))))
# Unit tests start mkfs and blkid, which lie in sbin; an ordinary user's PATH does not have it.
test: export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
test: export FSARENA_SKIPS ?= $(abspath $(TARGET))/skipped-tests
test: man
	rm -f $(FSARENA_SKIPS) && : > $(FSARENA_SKIPS)
	$(AS_USER) $(STATIC_TEST) --workspace --tests --no-run
	FSARENA=$(TARGET)/$(HOST)/debug/fsarena contrib/install-needs test
	$(AS_USER) rm -rf $(INSTALLED) && $(AS_USER) $(MAKE) install DESTDIR=$(INSTALLED) > /dev/null
	$(AS_USER) cp $(OUT)/fsarena.map $(INSTALLED)$(PREFIX)/bin/
	@failed=0; \
		FSARENA_SHIPPED=$(INSTALLED)$(PREFIX)/bin/fsarena $(STATIC_TEST) --workspace --tests || failed=1; \
		$(STATIC_TEST) --workspace --doc || failed=1; \
		sort -u $(FSARENA_SKIPS) | sed 's/^\([^\t]*\)\t/skipped: \1, which needs: /'; \
		echo "$$(sort -u $(FSARENA_SKIPS) | wc -l) tests skipped"; \
		exit $$failed

# Whether filesystems measure the same after a minute more of idling: 3 filesystems, 2 tasks, 8 rounds; and OpenZFS in
# guests, whose modules it compiles; and 40 planted histories, bisected by counts. Needs root; up to five hours.
test-long: export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
test-long: build
	FSARENA_SHIPPED=$(FSARENA) $(STATIC_TEST) --package fsarena --test it -- --ignored
	contrib/test-fresh
	$(FSARENA) selftest --here --idle
	contrib/test-slurm $(FSARENA)
	$(MAKE) test-mapper
	contrib/test-zfs $(FSARENA)
	! command -v mpicc.mpich > /dev/null || MPICC=mpicc.mpich FSARENA_MPIRUN=mpirun.mpich \
		$(MAKE) test-mpi CARGO_TARGET_DIR=$(abspath $(TARGET))/mpich

# Stacked devices natively, which takes a kernel with the device mapper: in a virtual machine with one that fsarena fetched.
# Needs root; 5 minutes.
test-mapper:
	CARGO_TARGET_$(shell echo $(HOST) | tr a-z- A-Z_)_RUNNER=$(abspath contrib/in-machine) \
		$(STATIC_TEST) --package fsarena --test it -- stacks::devices_are --nocapture

# Everything that reads foreign input, by libFuzzer, which stable Rust suffices for: FUZZ_RUNS inputs for each of
# FUZZ_TARGETS. An input that fails is in target/fuzz/faults; once it is mended, its place is the target's corpus.
FUZZ_RUNS    ?= 100000
FUZZ_TARGETS ?=
FUZZ_DIR     := $(abspath $(TARGET))/fuzz
FUZZ          = $(FUZZ_DIR)/$(HOST)/fuzz/fuzz
fuzz: export RUSTFLAGS := -Cpasses=sancov-module $(addprefix -Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares)
fuzz:
	$(CARGO) build --profile fuzz --package fsarena-fuzz --features libfuzzer --target $(HOST) --target-dir $(FUZZ_DIR)
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
	$(STATIC_TEST) --package fsarena --test it -- hostile:: --nocapture

# SIGKILL at 300 random instants of runs, guests and watches; recover and resume lose nothing. Needs root, half an hour.
kill: export FSARENA_KILLS ?= 300
kill:
	$(STATIC_TEST) --package fsarena --test it -- kill:: --nocapture

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	! { command -v mpicc > /dev/null && ls /usr/lib/llvm-*/lib/libclang.so > /dev/null 2>&1; } || \
		$(CARGO) clippy $(MPI) --all-targets -- -D warnings
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

# What the commands of the README, the tutorial and the cookbook print on this machine, into these pages, and the tables of
# option sets. Needs root, an idle machine and about an hour. GUIDE=cookbook/git writes only the pages with that in their path.
GUIDE ?= all
guide: build
	FSARENA_GUIDE=$(GUIDE) FSARENA_SHIPPED=$(abspath $(FSARENA)) $(CARGO) test --package fsarena --test it guide::the_outputs -- --nocapture
	FSARENA_GUIDE=$(GUIDE) $(CARGO) test --package fsarena --bin fsarena -- doc_tests::the_option_sets doc_tests::the_rounds_of_gates

# The documentation of the code.
doc:
	$(CARGO) doc --workspace --no-deps

clean:
	$(CARGO) clean
