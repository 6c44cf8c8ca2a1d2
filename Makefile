# SPDX-License-Identifier: GPL-2.0
#
# allreduce-uring: see `make help`.

BUILD	?= $(CURDIR)/build
CACHE	?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/allreduce-uring
# kernels that the tests run on, and the one of `make demo`
KERNELS	?= 6.1 6.12
KERNEL	?= 6.1

override BUILD := $(abspath $(BUILD))
export BUILD CACHE

QEMU	:= selftests/qemu
KSFT	= $(CACHE)/source/6.1/tools/testing/selftests
COLLECTIONS := kselftest:allreduce cluster:cluster

all: lib tools $(KERNELS:%=module-%)

help:
	@sed -n 's/^#: //p' Makefile

#: Building (everything goes to build/, downloads to ~/.cache/allreduce-uring):
#:   make setup          install the Debian packages that are missing
#:   make                library, tools, module for the test kernels
#:   make lib tools      liballreduce-uring; arctl and arbench
#:   make module         module for the running kernel (KDIR= for another)
#:   make module-6.1     module for Debian 12's kernel; module-6.12: for the one
#:                       of its backports; module-arm64: compile for arm64
#:   make install        library, tools and module (DESTDIR=, PREFIX=);
#:                       install-lib, install-tools, install-module one by one
#:   make clean          remove build/

setup:
	@$(QEMU)/setup.sh

kernel-%: setup
	@$(QEMU)/kernels.sh $*

kernels-update: setup
	@$(QEMU)/kernels.sh -u $(KERNELS) arm64 source

module-6.1 module-6.12 module-arm64: module-%: kernel-%
	@$(QEMU)/build-module.sh $*

module:
	@$(QEMU)/build-module.sh local

# Without setup, as install: a node that only runs jobs needs no QEMU.
lib:
	$(MAKE) -C lib BUILD=$(BUILD)

tools: lib
	$(MAKE) -C tools BUILD=$(BUILD)

unit: setup
	$(MAKE) -C lib BUILD=$(BUILD)
	$(MAKE) -C selftests/unit BUILD=$(BUILD)
	$(MAKE) -C selftests/lib BUILD=$(BUILD)

# lib.mk runs at MAKELEVEL 0 in its own world: hand it what it needs
kselftest: kernel-source
	$(MAKE) -C lib BUILD=$(BUILD)
	@set -e; for pair in $(COLLECTIONS); do \
		dir=selftests/$${pair%%:*}; name=$${pair#*:}; \
		mkdir -p $(BUILD)/kselftest/$$name $(BUILD)/kselftest/install; \
		rm -rf $(BUILD)/kselftest/install/$$name; \
		$(MAKE) --no-print-directory -C $$dir KSFT=$(KSFT) BUILD=$(BUILD) \
			OUTPUT=$(BUILD)/kselftest/$$name \
			INSTALL_PATH=$(BUILD)/kselftest/install/$$name install; \
		$(MAKE) -s --no-print-directory -C $$dir KSFT=$(KSFT) BUILD=$(BUILD) \
			OUTPUT=$(BUILD)/kselftest/$$name COLLECTION=$$name emit_tests \
			> $(BUILD)/kselftest/$$name.list; \
	done; \
	cat $(BUILD)/kselftest/*.list > $(BUILD)/kselftest/install/kselftest-list.txt; \
	cp -r $(KSFT)/run_kselftest.sh $(KSFT)/kselftest $(BUILD)/kselftest/install/

#: Testing (each ends with the line "N passed, N failed"):
#:   make check          everything, on both kernels; EXTRA=1 adds arbench to
#:                       64 MiB; SEED= of the random jobs (each run of them takes
#:                       the next), COMBINATIONS=1100 of them on each kernel
#:   make check-unit     on this machine, without a kernel
#:   make check-valgrind the same under valgrind; no part of make check
#:   make check-kselftest  rings in one guest; KERNELS=6.1 for one kernel,
#:                       TESTS="module.sh" for some of the tests
#:   make check-sizes    arbench from 4 B to 64 MiB on four members
#:   make check-property  random jobs on random rings; KERNELS=, COMBINATIONS=1100,
#:                       SEED=, TIME_LIMIT= (seconds); INDEX= with SEED= for one
#:                       again; CPU=Nehalem or max,-avx2 for one without AVX2;
#:                       SPOIL=INDEX for one that must fail
#:   make soak           JOBS=100000 on one ring, all results checked; SEED=,
#:                       TIME_LIMIT=, KERNEL=6.1 instead of 6.12, SPOIL=
#:   make check-large    a vector of MIB=4200 MiB, in a guest of 11000 MiB
#:   make check-cluster  rings between three guests; KERNELS= and TESTS= too
#:   make check-harness  do the tests notice when something is wrong?
#:   make demo           a real sum by four members in a guest (KERNEL=6.12)

check:
	@$(QEMU)/check.sh

check-unit: unit
	@$(QEMU)/unit.sh unit lib unit-neon; $(QEMU)/total.sh unit lib unit-neon

check-valgrind: unit
	@$(QEMU)/unit.sh unit-valgrind lib-valgrind; \
	$(QEMU)/total.sh unit-valgrind lib-valgrind

check-kselftest: kselftest tools $(KERNELS:%=module-%)
	@for k in $(KERNELS); do $(QEMU)/kselftest.sh $$k; done; \
	$(QEMU)/total.sh $(KERNELS:%=kselftest-%)

check-sizes: kselftest tools $(KERNELS:%=module-%)
	@for k in $(KERNELS); do TESTS=bench.sh MEMORY=3072 APPEND=aru.sizes \
		$(QEMU)/kselftest.sh $$k; done; \
	$(QEMU)/total.sh $(KERNELS:%=kselftest-%)

# for the guest, and for what ends it if it hangs
PROPERTY_LIMIT = $(or $(TIME_LIMIT),900)
check-property: kselftest tools $(KERNELS:%=module-%)
	@for k in $(KERNELS); do TESTS=property TIMEOUT=$$(($(PROPERTY_LIMIT) + 300)) \
		LIMIT=$$(($(PROPERTY_LIMIT) + 600)) \
		APPEND="aru.limit=$(PROPERTY_LIMIT) $(SEED:%=aru.seed=%) \
			$(INDEX:%=aru.index=%) $(COMBINATIONS:%=aru.combinations=%) \
			$(ISA:%=aru.isa=%) $(SPOIL:%=aru.spoil=%)" \
		$(QEMU)/kselftest.sh -f '^(property: |job [0-9]|  )' -r property-$$k $$k; done; \
	$(QEMU)/total.sh $(KERNELS:%=property-%)

SOAK_KERNEL := $(if $(filter file,$(origin KERNEL)),6.12,$(KERNEL))
SOAK_LIMIT = $(or $(TIME_LIMIT),7200)
soak: kselftest tools module-$(SOAK_KERNEL)
	@TESTS=soak TIMEOUT=$$(($(SOAK_LIMIT) + 300)) LIMIT=$$(($(SOAK_LIMIT) + 600)) \
		APPEND="aru.limit=$(SOAK_LIMIT) aru.jobs=$(or $(JOBS),100000) \
			$(SEED:%=aru.seed=%) $(SPOIL:%=aru.spoil=%)" \
		$(QEMU)/kselftest.sh -f '^(soak: |job [0-9]|  )' -r soak $(SOAK_KERNEL); \
	$(QEMU)/total.sh soak

LARGE_MIB = $(or $(MIB),4200)
check-large: kselftest tools module-$(SOAK_KERNEL)
	@TESTS=large TIMEOUT=3000 LIMIT=3600 MEMORY=$$((2 * $(LARGE_MIB) + 2600)) \
		APPEND=aru.mib=$(LARGE_MIB) \
		$(QEMU)/kselftest.sh -r large $(SOAK_KERNEL); \
	$(QEMU)/total.sh large

check-cluster: kselftest tools $(KERNELS:%=module-%)
	@for k in $(KERNELS); do $(QEMU)/kselftest.sh -c $$k; done; \
	$(QEMU)/total.sh $(KERNELS:%=cluster-%)

check-harness: kernel-6.1 kernel-source
	@selftests/harness/run.sh; $(QEMU)/total.sh harness

demo: setup
	$(MAKE) tools module-$(KERNEL)
	$(MAKE) -C selftests/demo BUILD=$(BUILD)
	@$(QEMU)/demo.sh $(KERNEL)

#: Checkers:
#:   make checkpatch     the kernel's style checker on the C files
#:   make sparse         the module under sparse, with the 6.1 headers
#:   make shellcheck     the scripts

checkpatch: kernel-source
	@$(QEMU)/checkpatch.sh

sparse: kernel-6.1
	@$(QEMU)/build-module.sh -s 6.1

shellcheck: setup
	@shellcheck .ci/run $$(grep -rlE '^#!/bin/(ba|da)?sh|shellcheck shell=' \
		--exclude='*.mk' selftests) && echo "shellcheck: clean"

install: install-lib install-tools install-module

install-lib:
	$(MAKE) -C lib BUILD=$(BUILD) install

install-tools: install-lib
	$(MAKE) -C tools BUILD=$(BUILD) install

# Debian's headers have no System.map, without which modules_install does not
# call depmod, and no key to sign with.
install-module: KERNEL_DIR = $(or $(KDIR),/lib/modules/$(shell uname -r)/build)
install-module: module
	$(MAKE) -C $(KERNEL_DIR) M=$(BUILD)/kmod INSTALL_MOD_DIR=updates/allreduce \
		$(if $(wildcard $(KERNEL_DIR)/certs/signing_key.*),,CONFIG_MODULE_SIG_ALL=) \
		$(if $(DESTDIR),INSTALL_MOD_PATH=$(DESTDIR)) modules_install
	[ -n "$(DESTDIR)" ] || { PATH=$$PATH:/sbin; \
		release=$$(modinfo -F vermagic $(BUILD)/kmod/allreduce.ko); \
		depmod "$${release%% *}"; }

clean:
	rm -rf $(BUILD)

.PHONY: all help setup kernels-update lib tools unit kselftest module module-6.1 \
	module-6.12 module-arm64 check check-unit check-valgrind check-kselftest \
	check-property check-large check-sizes check-cluster check-harness soak demo checkpatch sparse \
	shellcheck install install-lib install-tools install-module clean
