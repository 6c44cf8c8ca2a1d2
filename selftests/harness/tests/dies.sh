#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Is killed in the middle.
printf 'TAP version 13\n1..2\nok 1 one\n'
kill -9 $$
