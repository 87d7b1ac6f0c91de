#!/bin/bash
# The commands of documents that speak to a server by its own client. Those that
# write are run under simba lock: who owns the mutex writes, and who did before does
# not.
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

etcdctl_of_coming_from_works() {
    local pid

    [ "$kind" = etcd ] || return 200
    printf '#!/bin/sh\necho inside\n' >"$scratch/cmd" && chmod +x "$scratch/cmd"
    same "cmd says" inside "$(PATH=$scratch:$PATH etcdctl lock x cmd)" || return 1
    etcdctl elect x proposal >"$scratch/elected" &
    pid=$!
    within 20 grep -qx proposal "$scratch/elected"
    same "elected after" 0 $?
    kill "$pid" && wait "$pid" 2>/dev/null
    grep -qx proposal "$scratch/elected"
}

# A server that has refused for want of space takes changes again.
etcd_has_space_again_as_operations_tell() {
    local revision

    [ "$kind" = etcd ] || return 200
    block docs/operations.md 'etcdctl compact' 'etcdctl endpoint hashkv' || return 1
    "$SIMBA_SERVER_CONTROL" --alarm || return 1
    ! etcdctl put space none 2>"$scratch/said" &&
        grep -q 'database space exceeded' "$scratch/said" || return 1
    revision=$(etcdctl endpoint status -w fields | sed -n 's/^"Revision" : //p')
    sed -i "s/REVISION/$revision/" "$scratch/block"
    bash -e "$scratch/block" >"$scratch/said" 2>&1 ||
        { sed 's/^/# /' "$scratch/said" && return 1; }
    code 0 etcdctl put space some >/dev/null
}

# With our server in the place of the reader's.
etcd_3_4_forgets_as_faults_tell() {
    [ "$kind" = etcd ] || return 200
    etcd --version | grep -q 'Version: 3\.4\.' || return 200
    block docs/faults.md 'etcdctl put a' \
        'etcdctl get x               # refused' || return 1
    sed -i -e "s#http://127.0.0.1:2379#$ETCDCTL_ENDPOINTS#" \
        -e 's/kill -9.*/$SIMBA_SERVER_CONTROL --stop; $SIMBA_SERVER_CONTROL --start/' \
        "$scratch/block"
    same "stored though refused" refused \
        "$(bash "$scratch/block" 2>/dev/null | tail -n 1)"
}

run_tests
