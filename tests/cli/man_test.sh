#!/bin/bash
# The manual: a page for each command with all its options, which man(1) shows
# without complaint, one for each function of the library, each store, and the
# config file.
#
#   man_test.sh SIMBA SCRATCH PAGES LIBRARY
#
# PAGES is the directory of the pages, LIBRARY what they must cover. Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin man "$@"
pages=$3
library=$4
export LC_ALL=C.UTF-8

# ── Helpers ──────────────────────────────────────────────────────────────────

# options_of TEXT-FILE: the long options that it names.
options_of() {
    grep -oE -- '--[a-z][a-z-]+' "$1" | sort -u
}

# shown PAGE: what man(1) makes of it.
shown() {
    MANWIDTH=80 MANROFFSEQ='' man -E UTF-8 -l "$1" | col -b
}

# ── Pages ────────────────────────────────────────────────────────────────────

every_command_has_a_page() {
    local command

    [ "$(commands | wc -l)" -ge 6 ] || return 1
    for command in $(commands); do
        [ -s "$pages/simba-$command.1" ] || { echo "# $command" && return 1; }
        grep -q "^.BR simba.-${command//-/.-} (1)" "$pages/simba.1" || return 1
    done
}

every_option_is_in_its_page() {
    local command

    command -v man >/dev/null && command -v col >/dev/null || return 200
    for command in $(commands); do
        "$simba" "$command" --help >"$scratch/help"
        # A line may have been broken within an option: no hyphens there.
        shown "$pages/simba-$command.1" | tr -s ' \n' ' ' >"$scratch/page"
        same "options of $command" "$(options_of "$scratch/help")" \
            "$(options_of "$scratch/page")" || return 1
        grep -q 'EXIT STATUS' "$scratch/page" || return 1
    done
}

# What belongs to no single command.
main_page_has_all_sections() {
    local title word

    for title in NAME SYNOPSIS COMMANDS OPTIONS ENVIRONMENT FILES \
        'EXIT STATUS' 'SEE ALSO'; do
        same "sections $title" 1 "$(grep -cx "\.SH $title" "$pages/simba.1")" ||
            return 1
    done
    for word in SIMBA_STORE SIMBA_CONFIG SIMBA_MODULE_PATH NO_COLOR \
        /etc/simba.conf; do
        grep -qE "^\.B .*$word" "$pages/simba.1" ||
            { echo "# $word" && return 1; }
    done
}

# In the page, and in the document for those who read no manual.
every_exit_code_is_told() {
    local code tree

    tree=$(dirname "$0")/../..
    sed -n '/^\.SH EXIT STATUS/,/^\.SH SEE/p' "$pages/simba.1" >"$scratch/exits"
    for code in 1 $(sed -nE 's/^ +SIMBA__EXIT_[A-Z_]+ = ([0-9]+).*/\1/p' \
        "$tree/cli/cli.h"); do
        grep -qE "^$code( |\$)" "$scratch/exits" &&
            { [ "$code" -ge 126 ] || grep -qE "[^0-9]$code[^0-9]" \
                "$tree/docs/errors.md"; } || { echo "# $code" && return 1; }
    done
}

# The tables that URLs are read by say it.
main_page_has_the_parameters_of_stores() {
    local url

    "$simba" help stores >"$scratch/stores"
    grep -q '^  synchronous  ' "$scratch/stores" || return 1
    [ "$(awk '{ print length }' "$scratch/stores" | sort -n | tail -1)" -le 80 ] ||
        return 1
    for url in $(grep -o '^[a-z]*:' "$scratch/stores"); do
        grep -q "^\.SS $url" "$pages/simba.1" || { echo "# $url" && return 1; }
    done
    grep -qx '\.B synchronous' "$pages/simba.1"
}

limits_are_in_the_pages() {
    local command

    for command in lock lead every; do
        grep -q '66 characters' "$pages/simba-$command.1" &&
            grep -q '128 bytes' "$pages/simba-$command.1" &&
            grep -q '1\.5s' "$pages/simba-$command.1" ||
            { echo "# $command" && return 1; }
    done
}

man_has_nothing_to_complain_of() {
    local page

    command -v man >/dev/null || return 200
    for page in "$pages"/*.[157] "$pages"/libsimba.3 \
        "$pages"/simba_store_open.3; do # the others are of the same make
        MANWIDTH=80 MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z \
            "$page" 2>&1 >/dev/null | sed "s|^|# ${page##*/}: |" |
            tee -a "$scratch/complaints"
    done
    [ ! -s "$scratch/complaints" ]
}

mandoc_has_nothing_to_complain_of() {
    command -v mandoc >/dev/null || return 200
    same "complaints of mandoc" "" \
        "$(mandoc -T lint "$pages"/*.[1357])"
}

# Also those for authors of stores.
no_public_symbol_lacks_a_page() {
    local name count=0

    for name in $(nm -D --defined-only --format=posix "$library" 2>/dev/null |
        awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }'); do
        grep -qs "^$name .- ." "$pages/$name.3" ||
            { echo "# $name" && return 1; }
        count=$((count + 1))
    done
    [ "$count" -gt 100 ]
}

every_store_has_a_page() {
    local store

    for store in $("$simba" help stores | sed -n 's/^\([a-z]*\):.*/\1/p'); do
        grep -qsx '\.SH URL PARAMETERS' "$pages/simba-$store.7" ||
            { echo "# $store" && return 1; }
    done
    grep -q 'password_file' "$pages/simba.conf.5"
}

library_page_has_its_functions() {
    local name

    for name in simba_store_open simba_locker_acquire simba_scheduler_start \
        simba_retrieval_open simba_metrics_save; do
        grep -qx "\.BR $name (3)" "$pages/libsimba.3" || { echo "# $name" && return 1; }
    done
}

run_tests
