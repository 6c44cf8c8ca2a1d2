#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Ends well, but after two of its three tests.
printf 'TAP version 13\n1..3\nok 1 one\nok 2 two\n'
exit 0
