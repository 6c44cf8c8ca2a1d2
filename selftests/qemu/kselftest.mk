# SPDX-License-Identifier: GPL-2.0
#
# kselftest.mk - what the Makefiles of the selftests share.
#
# Wants KSFT (the folder of the kernel's lib.mk) and OUTPUT on the command line.

ifeq ($(wildcard $(KSFT)/lib.mk),)
$(error KSFT must be a folder with lib.mk; use the root Makefile: make kselftest)
endif

TOP := $(realpath $(dir $(lastword $(MAKEFILE_LIST)))/../..)
BUILD ?= $(TOP)/build

CFLAGS += -std=gnu11 -O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE
CFLAGS += -isystem $(KSFT) -I$(TOP)/include -I$(TOP)/include/uapi -I$(TOP)/kmod
LDLIBS += $(BUILD)/lib/liballreduce-uring.a -luring -lnl-genl-3 -lnl-3 -lpthread
CFLAGS += $(shell pkg-config --cflags libnl-3.0 liburing)

# lib.mk builds again what is older than these
LOCAL_HDRS := $(wildcard *.h $(TOP)/include/*.h $(TOP)/include/uapi/linux/*.h \
	$(TOP)/kmod/*.h $(TOP)/lib/*.h $(TOP)/tools/arbench/*.h $(TOP)/selftests/lib/*.h \
	$(TOP)/selftests/unit/*.h) \
	$(BUILD)/lib/liballreduce-uring.a

include $(KSFT)/lib.mk
