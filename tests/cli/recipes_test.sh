#!/bin/bash
# What docs/recipes.md and docs/coming-from.md tell people to write does what
# they say.
#
#   recipes_test.sh SIMBA SCRATCH PTY [PATTERN]
#
# Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin recipes "$@"
pty=$3
pattern=${4-*}

# As it is installed.
mkdir "$scratch/bin" && ln -s "$simba" "$scratch/bin/simba" || exit 1
export PATH=$scratch/bin:$PATH

# ── Helpers ──────────────────────────────────────────────────────────────────

is_owned() {
    "$simba" --json show "$1" | grep -q '"token":[1-9]'
}

# guardian_of NAME: the process that holds it.
guardian_of() {
    "$simba" --json show "$1" | sed -nE 's/.*"id":"[0-9]+:([0-9]+)@.*/\1/p'
}
export -f guardian_of

# ── Cron ─────────────────────────────────────────────────────────────────────

# On the other hosts nothing is mailed and nothing has failed, also when the job
# was over sooner than they looked.
one_host_runs_the_others_are_silent() {
    local job

    "$simba" -q lock nightly -w 50ms -E 0 --min-hold 1h -- \
        sh -c 'echo ran' >"$scratch/one" 2>&1 &
    job=$!
    within 20 grep -q ran "$scratch/one" || return 1
    code 0 "$simba" -q lock nightly -w 50ms -E 0 --min-hold 1h -- \
        sh -c 'echo ran' >"$scratch/two" 2>&1
    set -- $?
    kill -9 "$job" "$(guardian_of nightly)" # who keeps it for an hour
    wait "$job" 2>/dev/null
    same "what the others say" "" "$(cat "$scratch/two")" && return "$1"
}

# CMD has ended, and nothing seems to happen. An hour would be long.
what_is_kept_is_told_on_a_terminal() {
    code 0 on_terminal expect:ran 'expect:--min-hold keeps it for another ' \
        'until:kill -9 $(guardian_of k)' -- \
        "$simba" lock k --min-hold 1h -- echo ran
}

# ── Scripts ──────────────────────────────────────────────────────────────────

script_can_lock_itself() {
    cat >"$scratch/script" <<'LINE'
#!/bin/sh
[ "${SIMBA_MUTEX-}" = nightly ] || exec simba lock nightly -n -- "$0" "$@"
echo "$SIMBA_MUTEX $# $2"
LINE
    chmod +x "$scratch/script"
    same output "nightly 2 b c" "$("$scratch/script" a 'b c')" || return 1
    hold nightly || return 1
    code 75 "$scratch/script" a 2>/dev/null
    set -- $?
    let_go
    return "$1"
}

# Whoever comes from flock(1) may expect a daemon to keep the lock.
what_is_left_running_is_ended() {
    code 0 "$simba" lock d -- sh -c 'sleep 1000 & echo $! >"$0/left"' \
        "$scratch" && is_gone "$(cat "$scratch/left")" &&
        "$simba" lock --help | grep -q 'left running'
}

# ── Every ────────────────────────────────────────────────────────────────────

first_run_is_told_on_a_terminal() {
    code 130 on_terminal 'expect:the first run is due in ' 'send:\x03' -- \
        "$simba" every 1000h e -- true
}

first_run_is_told_to_nobody_else() {
    local job

    "$simba" every 1000h e -- true 2>"$scratch/err" &
    job=$!
    within 20 is_owned e || return 1
    kill "$job" && wait "$job"
    same "said but for both ends of leading" "" \
        "$(grep -v ' leads, token ' "$scratch/err")"
}

run_tests
