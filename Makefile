# The commands of the README; the work is done by CMake and scripts/.
# Silent: what the scripts say is enough.
.SILENT:
.PHONY: help demo test test-more check lint coverage seeds fuzz faults interop \
	speed format install clean release dist deb

PREFIX ?= /usr/local
SEEDS ?= 1000000
SECONDS ?= 300
STORE ?=
FAULTS ?= 2000
SEED ?= 1
LIMIT ?=
SIM := build/release/tests/sim/sim

help:
	echo 'make demo      contenders elect a leader, and lose it to kill -9'
	echo 'make test      everything, under gcc, clang and the sanitizers'
	echo 'make test-more the long forms too: more seeds, servers under sanitizers'
	echo 'make check     the developer loop: one build, no slow tests, no servers'
	echo 'make lint      format, clang-tidy, cppcheck, budgets'
	echo 'make coverage  branch coverage of src/core'
	echo 'make seeds     a long run of the simulator; SEEDS=$(SEEDS)'
	echo 'make fuzz      each fuzz target for SECONDS=$(SECONDS)'
	echo 'make faults    a storm of real faults; STORE= FAULTS=$(FAULTS) SECONDS= SEED=$(SEED)'
	echo 'make speed     all stores, anew into docs/speed.md: about 8 minutes'
	echo 'make interop   groups of ours and of the JVM on one mutex, and a table'
	echo 'make format    put the C files into our format'
	echo 'make install   command, libraries, headers, manual; PREFIX=$(PREFIX) DESTDIR='
	echo 'make dist      a source tarball; make deb: Debian packages'
	echo 'make clean     remove build/'

demo: release
	scripts/demo

test:
	scripts/deps test
	scripts/test dev asan-ubsan:lean tsan:lean

test-more:
	scripts/deps more
	scripts/test --more dev asan-ubsan tsan

check:
	scripts/deps test
	scripts/test --quick dev

lint:
	scripts/deps lint
	scripts/lint

coverage:
	scripts/deps coverage
	scripts/coverage

seeds: release
	$(SIM) --seeds $(SEEDS)

fuzz:
	scripts/deps fuzz
	scripts/fuzz $(SECONDS)

faults:
	scripts/deps test
	scripts/build dev
	scripts/faults '$(STORE)' $(FAULTS) $(SECONDS) $(SEED) $(if $(LIMIT),'$(LIMIT)')

speed:
	scripts/deps test
	scripts/speed

interop:
	scripts/deps interop
	scripts/build dev
	interop/run dev

format:
	scripts/deps lint
	scripts/format

install:
	scripts/deps install
	scripts/build release
	DESTDIR='$(DESTDIR)' scripts/install build/release '$(PREFIX)'

dist:
	scripts/package dist

deb:
	scripts/deps deb
	scripts/package deb

clean:
	rm -rf build

release:
	scripts/deps build
	scripts/build release
