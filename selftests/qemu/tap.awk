# SPDX-License-Identifier: GPL-2.0
#
# tap.awk - turn the TAP log of a guest into one verdict a line.
#
# Usage: awk -v prefix=NAME -f tap.awk tap.log
# Output: pass|fail|skip <tab> NAME/TEST[/SUBTEST] <tab> REASON
#
# Two levels are read: the results of the runner, and, in the lines before each
# of them that start with "# ", the results of the program itself, which then
# count one by one. Nothing is taken on trust: a level whose results do not
# fill its plan, or that has results but no plan, is a failure, and so is a
# "not ok" further down whose parents say "ok". The plan can come before or
# after its results; numbers that start again once a plan is filled belong to
# the next program in the same log.
#
# Lines that start with "@@" come from the guest's init (see guest-init); what
# the harness itself checks has a name that starts with "@".

function emit(status, test, reason)
{
	gsub(/\t/, " ", test)
	gsub(/\t/, " ", reason)
	printf "%s\t%s/%s\t%s\n", status, prefix, test, reason
	if (status == "fail")
		fails++
	if (test !~ /^@/)
		tests++
}

# parse(line): splits a result line into num, good, desc and directive.
function parse(line)
{
	good = line !~ /^not /
	sub(/^(not )?ok ?/, "", line)
	num = 0
	if (match(line, /^[0-9]+/)) {
		num = substr(line, 1, RLENGTH) + 0
		line = substr(line, RLENGTH + 1)
	}
	directive = ""
	if (match(line, /(^|[ \t])# */)) {
		directive = substr(line, RSTART + RLENGTH)
		line = substr(line, 1, RSTART - 1)
	}
	sub(/^[ \t]*(- *)?/, "", line)
	sub(/[ \t]+$/, "", line)
	desc = line
}

function verdict(test)
{
	# a known failure, or a test that is not written yet, has not passed
	if (!good)
		emit("fail", test, directive != "" ? directive : "not ok")
	else if (toupper(directive) ~ /^(SKIP|XFAIL|TODO)/)
		emit("skip", test, directive)
	else
		emit("pass", test, "")
}

# --- the level of the program ---------------------------------------------

function close_segment(    i, k)
{
	if (sub_plan < 0 && sub_seen > 0) {
		sub_kind[++sub_n] = "fail"
		sub_name[sub_n] = "plan"
		sub_why[sub_n] = sub_seen " results but no plan"
	} else if (sub_plan >= 0 && sub_distinct != sub_plan) {
		sub_kind[++sub_n] = "fail"
		sub_name[sub_n] = "plan"
		sub_why[sub_n] = "planned " sub_plan ", reported " sub_distinct
	}
	for (k in sub_num)
		delete sub_num[k]
	sub_plan = -1
	sub_seen = sub_distinct = 0
}

function nested(line)
{
	if (line ~ /^1\.\.[0-9]+/) {
		if (sub_plan >= 0)
			close_segment()
		sub_plan = substr(line, 4) + 0
		if (sub_plan == 0) {
			sub_kind[++sub_n] = "skip"
			sub_name[sub_n] = "plan"
			sub_why[sub_n] = "planned no tests"
		}
	} else if (line ~ /^(not )?ok [0-9]+([ \t]|$)/) {
		parse(line)
		if (num in sub_num && sub_plan == sub_distinct)
			close_segment()
		sub_seen++
		if (!(num in sub_num)) {
			sub_num[num] = 1
			sub_distinct++
		}
		sub_n++
		sub_kind[sub_n] = "pass"
		if (!good)
			sub_kind[sub_n] = "fail"
		else if (toupper(directive) ~ /^(SKIP|XFAIL|TODO)/)
			sub_kind[sub_n] = "skip"
		sub_name[sub_n] = desc != "" ? desc : "test " num
		sub_why[sub_n] = directive != "" ? directive : good ? "" : "not ok"
	} else if (line ~ /^not ok/ || line ~ /^[# \t]+not ok/) {
		sub_kind[++sub_n] = "fail"
		sub_name[sub_n] = "nested"
		sub_why[sub_n] = line
	} else if (line ~ /^Bail out!/) {
		sub_kind[++sub_n] = "fail"
		sub_name[sub_n] = "bail out"
		sub_why[sub_n] = line
	}
}

# flush_nested(test): reports what the program said before its result line.
function flush_nested(test,    i, bad, passes)
{
	close_segment()
	for (i = 1; i <= sub_n; i++) {
		emit(sub_kind[i], test "/" sub_name[i], sub_why[i])
		if (sub_kind[i] == "fail")
			bad++
		if (sub_kind[i] == "pass")
			passes++
	}
	counted = sub_n
	sub_n = 0
	return bad
}

# --- the level of the runner ----------------------------------------------

function close_plan(    k)
{
	if (plan >= 0 && distinct != plan)
		emit("fail", "plan", "planned " plan ", reported " distinct)
	if (plan < 0 && seen > 0)
		emit("fail", "plan", seen " results but no plan")
	if (plan >= 0)
		plans++
	for (k in top_num)
		delete top_num[k]
	plan = -1
	seen = distinct = 0
}

function top(line,    test, bad)
{
	parse(line)
	if (num in top_num && plan == distinct)
		close_plan()
	seen++
	if (!(num in top_num)) {
		top_num[num] = 1
		distinct++
	}
	test = desc != "" ? desc : "test " num
	sub(/^selftests: [^:]*: /, "", test)
	was_good = good
	why = directive
	bad = flush_nested(test)
	good = was_good
	directive = why
	# the result of a program that reported its parts only repeats them,
	# unless it failed without any of them having failed
	if (counted == 0 || (!good && !bad))
		verdict(test)
}

BEGIN {
	plan = sub_plan = -1
	seen = distinct = sub_seen = sub_distinct = sub_n = 0
}

{
	sub(/\r$/, "")
}

/^@@/ {
	if ($0 ~ /^@@(pass|fail) /) {
		line = substr($0, 8)
		test = line
		sub(/:.*/, "", test)
		if (!sub(/^[^:]*: */, "", line))
			line = ""
		emit(substr($0, 3, 4), "@" test, line)
		judged[test] = 1
	} else if ($0 ~ /^@@started /) {
		started[substr($0, 11)] = 1
	} else if ($0 ~ /^@@end /) {
		ended = 1
		rc = substr($0, 7) + 0
	}
	next
}

/^# / { nested(substr($0, 3)); next }

/^1\.\.[0-9]+/ {
	if (plan >= 0)
		close_plan()
	plan = substr($0, 4) + 0
	next
}

/^(not )?ok([ \t]|$)/ { top($0); next }

/^Bail out!/ { emit("fail", "bail out", $0); next }

/^[ \t]+not ok/ { emit("fail", "nested", $0); next }

END {
	if (sub_n > 0 || sub_plan >= 0)
		if (!flush_nested("unfinished test"))
			emit("fail", "unfinished test", "ended without a result")
	close_plan()
	if (tests == 0)
		emit("fail", "plan", plans ? "planned no tests" : "no test plan in the log")
	for (check in started)
		if (!(check in judged))
			emit("fail", "@" check, "started, but never reported")
	if (!ended)
		emit("fail", "@report", "the guest never reported its end")
	else if (rc != 0 && fails == 0)
		emit("fail", "@report", "test script: exit status " rc)
	else
		emit("pass", "@report", "")
}
