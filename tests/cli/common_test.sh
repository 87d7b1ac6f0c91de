#!/bin/bash
# What all commands have in common: how they fail, and what they do when nobody
# can read what they print.
#
#   common_test.sh SIMBA SCRATCH
#
# Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin common "$@"
SIMBA_STORE=sqlite:$scratch/simba.db

# ── Helpers ──────────────────────────────────────────────────────────────────

# cannot_write ARGUMENT…: says so, and why.
cannot_write() {
    code 74 timeout 60 "$simba" "$@" >/dev/full 2>"$scratch/err" &&
        same "what is said by $*" \
            "simba: cannot write: No space left on device" \
            "$(tail -n 1 "$scratch/err")"
}

# says WORDS ARGUMENT…: a wrong usage, told so.
says() {
    local words=$1

    shift
    code 64 "$simba" "$@" 2>"$scratch/err" &&
        same "what is said by $*" "simba: $words" "$(cat "$scratch/err")"
}

# ── Asking ───────────────────────────────────────────────────────────────────

help_is_a_command_too() {
    local command

    same help "$("$simba" --help)" "$("$simba" help)" &&
        same twice "$("$simba" --help)" "$("$simba" help --help)" || return 1
    for command in $(commands); do
        same "help of $command" "$("$simba" "$command" --help)" \
            "$("$simba" help "$command")" || return 1
    done
    code 64 "$simba" help nonsense 2>/dev/null
}

help_fits_a_terminal() {
    local command

    for command in "" $(commands); do
        # shellcheck disable=SC2086 # or none
        same "wide lines of $command" "" "$("$simba" $command --help |
            LC_ALL=C.UTF-8 grep -E '.{80}')" || return 1
    done
}

version_is_a_command_too() {
    "$simba" --version | grep -q '^simba [0-9]' &&
        same version "$("$simba" --version)" "$("$simba" version)" &&
        same -V "$("$simba" --version)" "$("$simba" -V)"
}

mistyped_command_is_guessed() {
    local pair

    for pair in lok:lock lcok:lock lsit:list wach:watch doc:doctor \
        vefiry:verify; do
        code 64 "$simba" "${pair%:*}" 2>"$scratch/err" &&
            same "guess for ${pair%:*}" "${pair#*:}" \
                "$(sed -n "s/.*did you mean '\(.*\)'?\$/\1/p" "$scratch/err")" ||
            return 1
    done
    code 64 "$simba" nonsense 2>"$scratch/err" &&
        ! grep -q 'did you mean' "$scratch/err"
}

# ── Failures ─────────────────────────────────────────────────────────────────

wrong_options_are_named() {
    local see="; see 'simba lock --help'"

    says "option --no-wait takes no value$see" lock a --no-wait=1 true &&
        says "option -y is unknown$see" lock --no-wait -yn a true &&
        says "option --wait needs a value$see" lock a --wait &&
        says "option -y is unknown$see" lock a -y true &&
        says "option -w needs a value$see" lock a -w &&
        says "option -y is unknown$see" lock a -yn true &&
        says "option -y is unknown$see" lock a --wait=1s -nyq true &&
        says "option -y is unknown$see" lock --no-wait -yray true &&
        says "option -é is unknown$see" lock a -é true &&
        says "option --json takes no value; see 'simba --help'" --json=1 list
}

every_message_is_one_line() {
    code 127 "$simba" lock a -- $'no\n\e[31msuch' 2>"$scratch/err" &&
        same lines 1 "$(wc -l <"$scratch/err")" &&
        same "other than printable" "" "$(tr -d '[:print:]\n' <"$scratch/err")"
}

every_failure_is_an_object() {
    local command rc

    [ "$(commands | wc -l)" -ge 12 ] || return 1
    for command in $(commands); do
        rc=0
        # shellcheck disable=SC2046 # one word each
        "$simba" --json --store sqlite:/dev/null/x $(right "$command") \
            >"$scratch/out" 2>"$scratch/err" || rc=$?
        grep '^{' "$scratch/out" "$scratch/err" | tail -n 1 |
            grep -q "\"event\":\"failed\",.*\"exit\":$rc[,}]" && continue
        echo "# $command ends with $rc, and:"
        sed 's/^/# /' "$scratch/out" "$scratch/err"
        return 1
    done
}

full_disk_is_told() {
    local command

    cannot_write --help && cannot_write --version || return 1
    for command in $(commands); do
        cannot_write "$command" --help || return 1
    done
    cannot_write tck --list && cannot_write tck 'names.c*' --store memory:x &&
        cannot_write verify /dev/null && cannot_write bench pair -n 2 &&
        cannot_write doctor && cannot_write show x
}

full_disk_is_named_by_views_too() {
    hold a || return 1
    cannot_write watch a && cannot_write list -f &&
        cannot_write --json watch a && cannot_write --json list -f
    set -- $?
    let_go
    return "$1"
}

# Also while there is nothing to tell.
views_end_with_their_reader() {
    local command

    "$simba" -q lock a -- true || return 1
    for command in "list -f" "watch" "watch a"; do
        # shellcheck disable=SC2086 # words
        code 141 env --default-signal=PIPE timeout 60 bash -c '
            "$@" | true
            exit "${PIPESTATUS[0]}"' - "$simba" $command --interval 50ms ||
            return 1
    done
} 2>/dev/null

control_c_is_in_the_exit_codes() {
    local command

    for command in list watch bench tck; do
        "$simba" "$command" --help | tr '\n' ' ' |
            grep -q 'exit codes: .*128 + N ended by signal N' ||
            { echo "# $command" && return 1; }
    done
}

one_is_no_plural() {
    "$simba" bench pair -n 1 >"$scratch/out" &&
        ! grep -q '1 rounds' "$scratch/out" &&
        "$simba" --json lock x -- true 2>"$scratch/log" &&
        same "what verify says" "2 events, 1 mutex, 0 findings" \
            "$("$simba" verify "$scratch/log")"
}

run_tests
