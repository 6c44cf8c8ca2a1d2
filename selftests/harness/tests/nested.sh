#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Fails further down and says that all is well.
printf 'TAP version 13\n1..1\n# not ok 1 deep down\nok 1 one\n'
exit 0
