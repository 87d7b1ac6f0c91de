#!/bin/bash
# Commands that are programs of their own: where simba finds simba-NAME, what it
# hands over and what it does not.
#
#   external_test.sh SIMBA SCRATCH COMPLETION
# shellcheck source=lib.sh disable=SC2154
. "$(dirname "$0")/lib.sh"
begin external "$1" "$2"
completion=$3 built=$simba

# ── Helpers ──────────────────────────────────────────────────────────────────

# place DIRECTORY NAME WORD: simba-NAME there, which prints the word, what it
# was given, and how it stands in the table of processes.
place() {
    mkdir -p "$1"
    {
        echo '#!/bin/sh'
        echo "echo $3: \"\$*\""
        echo "tr '\\000' ' ' </proc/\$\$/cmdline >'$scratch/cmdline'"
        echo "echo \"\$SIMBA_STORE \$SIMBA_JSON \$SIMBA_VERBOSITY\" \\"
        echo "    >'$scratch/given'"
    } >"$1/simba-$2"
    chmod 755 "$1/simba-$2"
}

# said WANTED ARGUMENT…: exits with 0 and prints this.
said() {
    local wanted=$1

    shift
    tells 0 "$@" && same "output of: simba $*" "$wanted" "$(cat "$scratch/out")"
}

says() {
    grep -qF -- "$1" "$scratch/err" && return
    same "message with '$1'" "" "$(cat "$scratch/err")"
}

# A copy of simba that others may run with the rights of its owner, in a
# directory everybody can reach; 200 where that cannot be.
set_user_id() {
    [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null || return 200
    yard=$(mktemp -d) && chmod 755 "$yard" && mkdir "$yard/bin" &&
        cp "$simba" "$yard/bin/simba" && chmod 4755 "$yard/bin/simba" ||
        return 1
    findmnt -T "$yard" -n -o OPTIONS 2>/dev/null | grep -qw nosuid && return 200
    rm -f "$scratch"/{cmdline,given} && chmod 777 "$scratch" &&
        place "$yard/path" evil path
    return 0
}

# as_nobody WANTED ARGUMENT…: the copy, by somebody else.
as_nobody() {
    local wanted=$1 got=0

    shift
    PATH=$yard/path:$PATH setpriv --reuid 65534 --regid 65534 --clear-groups \
        "$yard/bin/simba" "$@" >"$scratch/out" 2>"$scratch/err" || got=$?
    same "exit code of set-user-id: simba $*" "$wanted" "$got" && return
    sed 's/^/# /' "$scratch/out" "$scratch/err"
    return 1
}

# ── Finding ──────────────────────────────────────────────────────────────────

ours_are_found_in_the_build_tree() {
    local name

    for name in bench verify tck serve; do
        tells 0 "$name" --help && grep -q "^usage: simba $name" "$scratch/out" &&
            tells 0 help "$name" && grep -q "^usage: simba $name" "$scratch/out" ||
            return 1
    done
}

libexec_beside_the_program_is_searched_first() {
    local simba=$scratch/prefix/bin/simba

    mkdir -p "$scratch/prefix/bin" && cp "$built" "$simba" || return 1
    place "$scratch/prefix/libexec/simba" hello libexec
    place "$scratch/path" hello path
    PATH=$scratch/path:$PATH said "libexec: a b" hello a b &&
        ln -sf "$simba" "$scratch/link" &&
        simba=$scratch/link PATH=$scratch/path:$PATH said "libexec: a" hello a &&
        rm "$scratch/prefix/libexec/simba/simba-hello" &&
        PATH=$scratch/path:$PATH said "path: a" hello a
}

path_is_searched() {
    place "$scratch/path" hello path
    PATH=$scratch/none:$scratch/path:$PATH said "path: x -v --json" \
        hello x -v --json
}

where_one_stands_is_not_searched() {
    place "$scratch/here" stands here
    (
        cd "$scratch/here" &&
            PATH=.::$PATH tells 64 stands && says "there is no command 'stands'"
    )
}

commands_of_simba_come_first() {
    place "$scratch/path" list path
    PATH=$scratch/path:$PATH tells 0 list && ! grep -q path: "$scratch/out"
}

what_is_no_name_is_not_run() {
    place "$scratch/path" hello path
    mkdir -p "$scratch/path/simba-x" && place "$scratch/path/simba-x" y path
    PATH=$scratch/path:$PATH tells 64 x/simba-y &&
        PATH=$scratch/path:$PATH tells 64 ../path/simba-hello &&
        PATH=$scratch/path:$PATH tells 64 x
}

a_missing_one_of_ours_names_its_package() {
    local simba=$scratch/alone/bin/simba name package

    mkdir -p "$scratch/alone/bin" && cp "$built" "$simba" || return 1
    for name in bench verify tck serve; do
        package=simba-tools
        [ "$name" != serve ] || package=simba-serve
        PATH=/usr/bin:/bin tells 127 "$name" --help &&
            says "simba-$name is not installed: 'apt install $package' does" ||
            return 1
    done
}

one_that_cannot_be_run_is_126() {
    mkdir -p "$scratch/path"
    echo '#!/no/such/interpreter' >"$scratch/path/simba-odd"
    chmod 755 "$scratch/path/simba-odd"
    PATH=$scratch/path:$PATH tells 127 odd && says "cannot run" || return 1
    : >"$scratch/path/simba-odd"
    printf '\177ELF' >"$scratch/path/simba-odd"
    PATH=$scratch/path:$PATH tells 126 odd && says "cannot run"
}

# ── Handing over ─────────────────────────────────────────────────────────────

options_go_by_the_environment() {
    place "$scratch/path" hello path
    PATH=$scratch/path:$PATH said "path: x" --json -v --store sqlite:/x \
        hello x &&
        same given "sqlite:/x 1 1" "$(cat "$scratch/given")" &&
        PATH=$scratch/path:$PATH said "path: y" -q hello y &&
        same given "$SIMBA_STORE 0 -1" "$(cat "$scratch/given")"
}

secrets_are_no_arguments() {
    local url=redis://user:geheim@host.invalid word

    place "$scratch/path" hello path
    for word in "--store $url" "--store=$url" "--sto $url"; do
        # shellcheck disable=SC2086 # two words
        PATH=$scratch/path:$PATH said "path: a b" hello a $word b &&
            same given "$url 0 0" "$(cat "$scratch/given")" &&
            ! grep -q geheim "$scratch/cmdline" || return 1
    done
    PATH=$scratch/path:$PATH said "path: x" --store "$url" hello x &&
        same given "$url 0 0" "$(cat "$scratch/given")" &&
        ! grep -q geheim "$scratch/cmdline"
}

what_follows_two_dashes_is_not_ours() {
    place "$scratch/path" hello path
    PATH=$scratch/path:$PATH said "path: a -- --store x" hello a -- --store x &&
        same given "$SIMBA_STORE 0 0" "$(cat "$scratch/given")"
}

an_empty_store_is_not_the_default() {
    place "$scratch/path" hello path
    PATH=$scratch/path:$PATH tells 78 --store '' hello &&
        PATH=$scratch/path:$PATH tells 64 hello --store
}

# Who wrote --store has set no variable.
option_is_blamed() {
    tells 78 tck --store sqlit:x &&
        says 'simba: --store: no store speaks "sqlit:"' &&
        tells 78 --store sqlit:x tck &&
        says 'simba: --store: no store speaks "sqlit:"' &&
        SIMBA_STORE=sqlit:x tells 78 tck &&
        says "simba: \$SIMBA_STORE: no store speaks" &&
        SIMBA_STORE=sqlit:x tells 78 tck --store required &&
        says "simba: \$SIMBA_STORE: no store speaks"
}

tools_take_them_too() {
    said "0 events, 0 mutexes, 0 findings" verify /dev/null &&
        tells 0 --json verify /dev/null && grep -q '^{"events":0' "$scratch/out"
}

# ── Knowing them ─────────────────────────────────────────────────────────────

others_are_listed_guessed_and_completed() {
    place "$scratch/path" rotate path
    place "$scratch/path" lock path # never run, as there is one of that name
    PATH=$scratch/path:$PATH tells 0 help &&
        ! grep -q "simba-lock" "$scratch/out" &&
        grep -q "^  rotate  *$scratch/path/simba-rotate$" "$scratch/out" &&
        PATH=$scratch/path:$PATH tells 64 rotaet &&
        says "did you mean 'rotate'?" &&
        PATH=$scratch/path:$PATH sh "$completion/complete.sh" "$simba" rot |
        grep -q '^rotate' &&
        rm -f "$scratch/cmdline" &&
        PATH=$scratch/path:$PATH sh "$completion/complete.sh" "$simba" rotate '' |
        grep -qx @file &&
        [ ! -e "$scratch/cmdline" ] # nothing of theirs was run for it
}

# ── Set-user-id ──────────────────────────────────────────────────────────────

set_user_id_never_searches_path() {
    set_user_id || return
    as_nobody 64 evil && says "there is no command 'evil'"
    local rc=$?
    rm -rf "$yard"
    return $rc
}

set_user_id_believes_only_roots_directory() {
    local rc=0

    set_user_id || return
    place "$yard/libexec/simba" evil libexec
    chmod 755 "$yard/libexec" "$yard/libexec/simba"
    as_nobody 0 evil && grep -q '^libexec:' "$scratch/out" &&
        chmod 777 "$yard/libexec/simba" && as_nobody 64 evil &&
        chmod 755 "$yard/libexec/simba" &&
        chown 65534 "$yard/libexec/simba" && as_nobody 64 evil || rc=1
    rm -rf "$yard"
    return $rc
}

set_user_id_takes_no_store() {
    local rc=0

    set_user_id || return
    place "$yard/libexec/simba" evil libexec
    chmod 755 "$yard/libexec" "$yard/libexec/simba"
    as_nobody 78 --store sqlite:/x evil && says "takes no --store" || rc=1
    rm -rf "$yard"
    return $rc
}

run_tests
