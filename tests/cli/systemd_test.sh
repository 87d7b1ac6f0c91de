#!/bin/bash
# The example units: understood by systemd, and their command lines by simba.
#
#   systemd_test.sh SIMBA SCRATCH UNITS
#
# UNITS is examples/systemd. Prints TAP.
set -u
source "$(dirname "$0")/run_lib.sh"
pty= pattern=*
units=$(realpath "$3")
SIMBA_STORE=sqlite:$scratch/simba.db

# ── Helpers ──────────────────────────────────────────────────────────────────

# start_of UNIT: prints its command as the shell would write it, for instance x
# of the unit.
start_of() {
    sed -nE 's|^ExecStart=simba (.*)|\1|p' "$units/$1" |
        sed 's|%i|x|g; s|\$\$|\\$|g'
}

# ── Units ────────────────────────────────────────────────────────────────────

systemd_has_nothing_to_complain_of() {
    local unit name

    command -v systemd-analyze >/dev/null || return 200
    for unit in "$units"/*.service "$units"/*.timer; do
        name=${unit##*/}
        sed "s|=simba |=$simba |" "$unit" >"$scratch/$name"
        sed "s|=simba |=$simba |" "$unit" >"$scratch/${name/@/@x}"
    done
    systemd-analyze verify --man=no "$scratch"/*@x.service \
        "$scratch"/*@x.timer >"$scratch/complaints" 2>&1
    local rc=$?
    sed 's/^/# /' "$scratch/complaints"
    [ "$rc" -eq 0 ] && [ ! -s "$scratch/complaints" ]
}

# A lock, a lead and an every of one name do not keep each other out.
each_kind_has_mutexes_of_its_own() {
    local kind

    for kind in lock lead every; do
        start_of "simba-$kind@.service" | grep -q " $kind/x " || return 1
    done
}

# Also where there is no systemd.
lines_are_sections_settings_or_comments() {
    ! grep -nHvE '^(#.*|;.*|\[(Unit|Service|Timer|Install)\]|[A-Z][A-Za-z]+=.*|)$' \
        "$units"/*.service "$units"/*.timer | sed 's/^/# /' | grep .
}

lead_unit_runs_its_command() {
    export COMMAND="touch $scratch/led"
    eval "set -- $(start_of simba-lead@.service)"
    code 0 "$simba" "$@" && [ -e "$scratch/led" ]
}

every_unit_runs_its_command() {
    local front

    export COMMAND="touch $scratch/beaten" PERIOD=100ms
    eval "set -- $(start_of simba-every@.service)"
    "$simba" "$@" &
    front=$!
    within 20 test -e "$scratch/beaten"
    local rc=$?
    kill "$front"
    wait "$front"
    return "$rc"
}

# Of two hosts one runs the job; for the other that is no failure.
lock_unit_runs_its_command_once() {
    local front guardian

    export COMMAND="tee -a $scratch/locked"
    eval "set -- $(start_of simba-lock@.service | sed 's/-w 30s/-w 50ms/')"
    "$simba" "$@" <<<run &
    front=$!
    within 20 test -s "$scratch/locked" || return 1
    code 0 "$simba" -q "$@" <<<again
    local rc=$?
    # It would keep others out for its least time; so would its guardian, which has
    # files in the scratch directory.
    guardian=$(guardian_of "$front")
    kill -9 "$front" "$guardian"
    wait "$front"
    within 20 is_gone "$guardian" || return 1
    [ "$rc" -eq 0 ] && same runs run "$(cat "$scratch/locked")"
} 2>/dev/null

run_tests
