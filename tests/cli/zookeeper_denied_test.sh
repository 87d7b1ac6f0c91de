#!/bin/bash
# Who may not use the nodes of an ensemble ends with 77, whatever the command.
# (Other stores refuse at connect: admin_test.sh has those.)
#
#   zookeeper_denied_test.sh SIMBA SCRATCH URL [PATTERN]
#
# Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin denied "$@"
servers=${3#zookeeper://}
pattern=${4-*}
unset SIMBA_ZOOKEEPER_USER SIMBA_ZOOKEEPER_PASSWORD

# Ann's alone, by the ACL that a URL with a user gives.
export SIMBA_STORE=zookeeper://ann:secret@${servers%%/*}/anns
"$simba" -q init >"$scratch/init" && "$simba" lock old -- true || exit 1

# ── Helpers ──────────────────────────────────────────────────────────────────

# denied URL COMMAND ARGUMENT…: ends with 77, and says so.
denied() {
    local url=$1

    shift
    code 77 timeout 60 "$simba" --json --store "$url" "$@" \
        >"$scratch/out" 2>"$scratch/err" &&
        cat "$scratch/out" "$scratch/err" |
        grep -q '"event":"failed".*"status":"denied".*"exit":77' && return
    sed 's/^/# /' "$scratch/out" "$scratch/err"
    return 1
}

# all_denied URL
all_denied() {
    denied "$1" list && denied "$1" show old && denied "$1" watch old &&
        denied "$1" watch && denied "$1" init && denied "$1" init --upgrade &&
        denied "$1" break old --token 1 --reason x --now &&
        denied "$1" tck names.case_matters && denied "$1" bench pair -n 2
}

# runs_denied URL NAME
runs_denied() {
    denied "$1" lock "$2" -- true && denied "$1" lock "$2" -n -- true &&
        denied "$1" lead "$2" -- true && denied "$1" every 1s "$2" -- true
}

# ── Tests ────────────────────────────────────────────────────────────────────

wrong_password_is_77() {
    all_denied "zookeeper://ann:wrong@${servers%%/*}/anns"
}

no_password_is_77() {
    all_denied "zookeeper://${servers%%/*}/anns"
}

# Neither one that is there, nor one that would have to be made.
mutexes_are_denied() {
    runs_denied "zookeeper://ann:wrong@${servers%%/*}/anns" old &&
        runs_denied "zookeeper://ann:wrong@${servers%%/*}/anns" new &&
        runs_denied "zookeeper://${servers%%/*}/anns/deeper" new
}

# The right one is let in all the while.
owner_goes_on() {
    code 0 "$simba" lock old -- true && code 0 "$simba" lock new -- true &&
        code 0 "$simba" list
}

run_tests
