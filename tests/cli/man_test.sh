#!/bin/bash
# The manual: a page for each command with all its options, which man(1) shows
# without complaint, and one for the library.
#
#   man_test.sh SIMBA SCRATCH PAGES
#
# PAGES is the directory of the pages. Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin man "$@"
pages=$3
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
        grep -q "^.BR simba.-$command (1)" "$pages/simba.1" || return 1
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
    for page in "$pages"/*.[13]; do
        MANWIDTH=80 MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z \
            "$page" 2>&1 >/dev/null | sed "s|^|# ${page##*/}: |" |
            tee -a "$scratch/complaints"
    done
    [ ! -s "$scratch/complaints" ]
}

library_page_has_its_functions() {
    local name

    for name in simba_store_open simba_locker_acquire simba_scheduler_start \
        simba_retrieval_open simba_metrics_save; do
        grep -q "$name(" "$pages/libsimba.3" || { echo "# $name" && return 1; }
    done
}

run_tests
