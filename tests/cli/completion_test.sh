#!/bin/bash
# Completion of simba(1) in bash, zsh and fish.
#
#   completion_test.sh SIMBA SCRATCH COMPLETION [PATTERN]
#
# COMPLETION is the directory of the scripts. Without zsh or fish their tests
# are skipped. Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin completion "$@"
scripts=$(realpath "$3")
pattern=${4-*}
SIMBA_STORE=sqlite:$scratch/simba.db
export SIMBA_COMPLETE_SECONDS=30 # a slow machine is no slow store
unset SIMBA_COMPLETE

# As it is installed.
mkdir -p "$scratch/bin" "$scratch/share/simba"
ln -s "$simba" "$scratch/bin/simba"
cp "$scripts/complete.sh" "$scratch/share/simba/"
PATH=$scratch/bin:$PATH
export PATH
source "$scripts/simba.bash"

# ── Helpers ──────────────────────────────────────────────────────────────────

# in_bash LINE: what bash would offer, the cursor being at its end.
in_bash() {
    COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
    COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
    _simba 2>&1
    printf '%s\n' "${COMPREPLY[@]}" | sort | xargs -d '\n'
}

# in_zsh WORD...: likewise; what zsh does with the candidates is its own affair.
in_zsh() {
    command -v zsh >/dev/null || return 200
    zsh -f -c '
        simba=$1
        shift
        _describe() { print -l -- ${(P)2} }
        _files() { print @file }
        _command_names() { print @command }
        script=$1
        shift
        complete_it() { words=("$@") CURRENT=$#; . $script }
        complete_it $simba "$@"' zsh "$scratch/bin/simba" "$scripts/_simba" "$@"
}

# in_fish LINE
in_fish() {
    command -v fish >/dev/null || return 200
    HOME=$scratch fish --no-config -c "source $scripts/simba.fish
        complete -C '$1'"
}

# offers WORD LINE: says what there was instead if not.
offers() {
    [[ " $2 " == *" $1 "* ]] && return
    echo "# no '$1' in '$2'"
    return 1
}

# ── Bash ─────────────────────────────────────────────────────────────────────

commands_are_offered() {
    local all command

    all=$(in_bash "simba ")
    for command in $("$simba" --help | sed -nE 's/^  ([a-z]+) .*/\1/p'); do
        offers "$command" "$all" || return 1
    done
    same some show "$(in_bash "simba sh")" &&
        same help show "$(in_bash "simba help sh")" &&
        same none "" "$(in_bash "simba x")"
}

options_are_offered() {
    same one --follow "$(in_bash "simba list --fol")" &&
        offers --reason "$(in_bash "simba break --")" &&
        offers --store "$(in_bash "simba break x --token 3 --")" &&
        offers --kill-after "$(in_bash "simba lock --")" &&
        offers -n "$(in_bash "simba lock -")" &&
        offers --version "$(in_bash "simba --")"
}

mutexes_are_offered() {
    hold 'some job' || return 1
    same show 'some\ job' "$(in_bash "simba show s")" &&
        same lock 'some\ job' "$(in_bash "simba lock --wait 3s ")" &&
        same other "" "$(in_bash "simba show t")" &&
        same elsewhere "" \
            "$(in_bash "simba --store sqlite:$scratch/other.db show ")"
    set -- $?
    let_go
    return "$1"
}

colons_are_no_ends_of_words() {
    hold a:b:c || return 1
    same name b:c "$(in_bash "simba show a:")"
    set -- $?
    let_go
    return "$1"
}

values_of_options_are_not_guessed() {
    hold a || return 1
    same wait "" "$(in_bash "simba lock --wait ")" &&
        same token "" "$(in_bash "simba break --token ")"
    set -- $?
    let_go
    return "$1"
}

values_that_are_words_are_offered() {
    same restart "always never on-failure" \
        "$(in_bash "simba lead --restart ")" &&
        same some never "$(in_bash "simba lead x --restart ne")" &&
        same lead "leading standby" "$(in_bash "simba lead x --ready ")" &&
        same every "leading standby" "$(in_bash "simba every 1s x --ready ")"
}

# For bash the word begins behind the colon.
files_of_stores_are_offered() {
    mkdir -p "$scratch/dbs/more" && : >"$scratch/dbs/one.db"
    same file "$scratch/dbs/one.db" \
        "$(in_bash "simba --store sqlite:$scratch/dbs/o")" &&
        same all "$scratch/dbs/more/ $scratch/dbs/one.db" \
            "$(in_bash "simba list --store sqlite:$scratch/dbs/")" &&
        same joined "$scratch/dbs/one.db" \
            "$(in_bash "simba list --store=sqlite:$scratch/dbs/o")" &&
        same none "" "$(in_bash "simba list --store sqlite:$scratch/no-such")"
}

programs_and_files_are_offered() {
    : >"$scratch/some.log"
    offers printenv "$(in_bash "simba lock x printe")" &&
        offers printenv "$(in_bash "simba lock x -- printe")" &&
        same file "$scratch/some.log" "$(in_bash "simba verify $scratch/so")" &&
        same metrics "$scratch/some.log" \
            "$(in_bash "simba lock --metrics-file $scratch/so")"
}

scenarios_and_tests_are_offered() {
    offers pair "$(in_bash "simba bench ")" &&
        offers acquire.free_mutex_is_granted "$(in_bash "simba tck acq")"
}

# A store that does not answer.
nobody_waits_for_long() {
    local start=$SECONDS SIMBA_COMPLETE_SECONDS=1

    mkdir -p "$scratch/slow/bin" && cat >"$scratch/slow/bin/simba" <<LINE
#!/bin/sh
case \$* in *list) exec sleep 60 ;; esac
exec "$simba" "\$@"
LINE
    chmod +x "$scratch/slow/bin/simba"
    same names "" "$(SIMBA_COMPLETE=$scripts/complete.sh \
        PATH=$scratch/slow/bin:$PATH in_bash "simba show ")" &&
        [ $((SECONDS - start)) -lt 40 ]
}

errors_are_not_printed() {
    same module "" "$(in_bash "simba --store nonsense:x show ")" &&
        same command "" "$(in_bash "simba nonsense ")" &&
        same helper "" "$(SIMBA_COMPLETE=$scratch/none in_bash "simba ")"
}

# ── Others ───────────────────────────────────────────────────────────────────

# For shells that show it beside each.
every_option_is_told_with_what_it_does() {
    local command

    for command in $(commands); do
        same "options of $command that are not" "" \
            "$(sh "$scripts/complete.sh" "$simba" "$command" -- |
                grep -v $'\t[^ ]')" || return 1
    done
}

zsh_offers_the_same() {
    command -v zsh >/dev/null || return 200
    hold 'some job' || return 1
    same command "show:who owns NAME, and who waits in which order" \
        "$(in_zsh sh | grep '^show:')" &&
        same name 'some job' "$(in_zsh show so)" &&
        same program @command "$(in_zsh lock x tru)"
    set -- $?
    let_go
    return "$1"
}

fish_offers_the_same() {
    command -v fish >/dev/null || return 200
    hold some-job || return 1
    offers show "$(in_fish 'simba sh' | cut -f 1 | xargs)" &&
        same name some-job "$(in_fish 'simba show so')" &&
        offers printenv "$(in_fish 'simba lock x printen' | cut -f 1 | xargs)"
    set -- $?
    let_go
    return "$1"
}

run_tests
