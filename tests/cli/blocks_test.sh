#!/bin/bash
# The commands of documents that speak to a server by its own client, each run under
# simba lock: who owns the mutex writes, and who did before does not.
#
#   blocks_test.sh SIMBA SCRATCH SOURCE postgres|etcd URL
#
# The clients are told of the server by with_postgres and with_etcd. Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin blocks "$1" "$2"
source=$3
kind=$4
export SIMBA_STORE=$5

# ── Helpers ──────────────────────────────────────────────────────────────────

# block DOCUMENT BEGINNING END: its indented code from a line that begins so to one
# that is so.
block() {
    awk -v from="$2" -v to="$3" '{ line = substr($0, 5) }
        index(line, from) == 1 { on = 1 }
        on { print line }
        on && line == to { exit }' "$source/$1" >"$scratch/block"
    [ "$(wc -l <"$scratch/block")" -ge 3 ]
}

# ── Blocks ───────────────────────────────────────────────────────────────────

psql_of_recipes_is_fenced() {
    [ "$kind" = postgres ] || return 200
    export PGHOST=$SIMBA_SERVER_DIR PGUSER=simba PGDATABASE=postgres
    block docs/recipes.md 'psql -v' SQL &&
        psql -qc 'CREATE TABLE report (id int, body text, token bigint);
            INSERT INTO report VALUES (7, NULL, 0)' || return 1
    code 0 "$simba" lock nightly -- bash "$scratch/block" >"$scratch/out" &&
        same written "UPDATE 1" "$(cat "$scratch/out")" || return 1
    same "written late" "UPDATE 0" "$(SIMBA_TOKEN=17 bash "$scratch/block")"
}

etcdctl_of_guards_is_fenced() {
    [ "$kind" = etcd ] || return 200
    block docs/guards.md 'etcdctl txn' END || return 1
    code 0 "$simba" lock orders -- bash "$scratch/block" >"$scratch/out" &&
        same "first line" SUCCESS "$(head -n 1 "$scratch/out")" &&
        same written sent "$(etcdctl get orders/state --print-value-only)" ||
        return 1
    same "written late" FAILURE "$(SIMBA_TOKEN=17 bash "$scratch/block" |
        head -n 1)"
}

run_tests
