#!/bin/bash
# Completion of simba(1) in the line editor of zsh itself, on a terminal. What is
# offered, completion_test.sh asks; here is what becomes of it.
#
#   completion_zsh_test.sh SIMBA SCRATCH PTY COMPLETION [PATTERN]
#
# Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin zsh "$@"
pty=$(realpath "$3")
scripts=$(realpath "$4")
pattern=${5-*}
export SIMBA_COMPLETE=$scripts/complete.sh
export SIMBA_COMPLETE_SECONDS=30 # a slow machine is no slow store

mkdir -p "$scratch/bin" "$scratch/dbs/deep" || exit 1
ln -s "$simba" "$scratch/bin/simba"
: >"$scratch/dbs/deep/one.db"
export PATH=$scratch/bin:$PATH

# ── Helpers ──────────────────────────────────────────────────────────────────

# in_zsh STEP…: the steps of pty.c, with zsh waiting at "$ ".
in_zsh() {
    command -v zsh >/dev/null || return 200
    (cd "$scratch" && on_terminal size:30x160 'expect:$ ' \
        "send:fpath=($scripts \$fpath); autoload -U compinit\n" 'expect:$ ' \
        'send:compinit -u -D; print rea""dy\n' expect:ready 'expect:$ ' \
        "$@" 'send:\x15exit\n' -- env TERM=dumb PS1='$ ' zsh -f -i)
}

# ── Tests ────────────────────────────────────────────────────────────────────

commands_are_told_with_what_they_do() {
    in_zsh 'send:simba \x09' 'expect:lock ' 'expect:while holding the mutex'
}

option_is_finished() {
    in_zsh 'send:simba lock --kill-\x09' expect:--kill-after
}

mutex_is_quoted() {
    hold 'some job' || return 1
    in_zsh 'send:simba show so\x09' 'expect:some\ job'
    set -- $?
    let_go
    return "$1"
}

# More is to come behind a directory.
directory_is_no_end_of_a_word() {
    in_zsh 'send:simba --store sqlite:dbs/de\x09o\x09' expect:dbs/deep/one.db &&
        in_zsh 'send:simba list --store=sqlite:dbs/de\x09o\x09' \
            expect:dbs/deep/one.db
}

run_tests
