# What the tests of simba(1) have in common; bash sources it, and calls begin
# first and run_tests last.
#
# The tests are all functions of the sourcing script, except those under the
# headline "# ── Helpers". One fails by its return value, and says why in lines
# that begin with '#'; 200 skips it. Nothing sleeps for luck: tests wait for
# conditions, up to a deadline.

count=0
failed=0

# begin NAME SIMBA DIRECTORY: sets simba, the program, and scratch, a directory
# of our own below DIRECTORY; the store is $SIMBA_STORE, or a file there. The
# caller may set pattern then, a glob of the tests to run, and pty, the helper
# built from pty.c, without which the tests of terminals are skipped.
begin() {
    local directory reachable=

    export LC_ALL=C SIMBA_CONFIG=/dev/null
    # execvp(3) takes a directory that may not be entered for a program that may
    # not be run; some shells leave such a PATH to another user.
    while IFS= read -r -d : directory; do
        [ ! -x "$directory" ] || reachable+=${reachable:+:}$directory
    done <<<"$PATH:"
    PATH=$reachable
    simba=$(realpath "$2")
    mkdir -p "$3" && scratch=$(mktemp -d "$3/simba-$1.XXXXXX") || exit 1
    # Shells and units name it, and the tree may be where there are spaces.
    case $simba in
    *[!A-Za-z0-9/._+-]*)
        ln -s "${simba%/*}" "$scratch/bin-of-simba" || exit 1
        simba=$scratch/bin-of-simba/${simba##*/}
        ;;
    esac
    pattern=* pty=
    export simba scratch
    export SIMBA_STORE=${SIMBA_STORE-sqlite:$scratch/simba.db}
    unset SIMBA_MUTEX SIMBA_TOKEN SIMBA_OWNER_ID SIMBA_SLOT
    unset NOTIFY_SOCKET WATCHDOG_USEC NO_COLOR
}

# commands: prints the names of all that are ours.
commands() {
    "$simba" --help |
        sed -nE -e '/^others /q' -e 's/^  ([a-z][a-z-]*)( .*|$)/\1/p'
}

# within SECONDS COMMAND…: true as soon as COMMAND is.
within() {
    local end=$((${EPOCHREALTIME/./} + $1 * 1000000))

    shift
    until "$@" 2>/dev/null; do
        [ "${EPOCHREALTIME/./}" -lt "$end" ] || return 1
        read -r -t 0.005 <> <(:) # a pause, without a process for it
    done
    return 0
}

# same WHAT WANTED GOT
same() {
    [ "$2" = "$3" ] && return
    echo "# $1: wanted '$2', got '$3'"
    return 1
}

# code WANTED COMMAND…: runs it, and compares the exit code.
code() {
    local wanted=$1 got=0

    shift
    "$@" || got=$?
    same "exit code of: ${*//$'\n'/ }" "$wanted" "$got"
}

# tells WANTED ARGUMENT…: runs simba, and compares the exit code; what it said
# is in $scratch/out and $scratch/err.
tells() {
    local wanted=$1 got=0

    shift
    "$simba" "$@" >"$scratch/out" 2>"$scratch/err" || got=$?
    same "exit code of: simba $*" "$wanted" "$got" && return
    sed 's/^/# /' "$scratch/out" "$scratch/err"
    return 1
}

# right COMMAND: arguments that are right but for the store, and the file.
right() {
    case $1 in
    lock | lead) echo "$1 x -- true" ;;
    every) echo "$1 1s x -- true" ;;
    show | held | watch | hand-over) echo "$1 x" ;;
    break) echo "$1 x --token 1 --reason y --now" ;;
    bench) echo "$1 pair" ;;
    verify) echo "$1 $scratch/no-such-file" ;;
    tck) echo "$1 --quick" ;;
    *) echo "$1" ;;
    esac
}

parent_of() {
    local stat

    read -r stat <"/proc/$1/stat" || return 1
    stat=${stat##*) }
    set -- $stat
    echo "$2"
}

state_of() {
    local stat

    read -r stat <"/proc/$1/stat" || return 1
    stat=${stat##*) }
    echo "${stat%% *}"
}

is_gone() {
    [ ! -e "/proc/$1" ] || [ "$(state_of "$1")" = Z ]
}

is_stopped() {
    [ "$(state_of "$1")" = T ]
}

# all_gone PID…
all_gone() {
    local pid

    for pid in "$@"; do
        is_gone "$pid" || return 1
    done
}

has_lines() {
    [ "$(wc -l <"$2")" -ge "$1" ]
}

# is_free NAME: somebody can have it at once.
is_free() {
    "$simba" -q lock "$1" -n -- true
}

# hold NAME OPTION…: until let_go; sets holder.
hold() {
    rm -f "$scratch/let-go" "$scratch/held"
    "$simba" lock "$@" -- sh -c 'echo >"$0/held"
        until [ -e "$0/let-go" ]; do sleep 0.01; done' "$scratch" &
    holder=$!
    within 20 test -e "$scratch/held"
}

let_go() {
    : >"$scratch/let-go"
    wait "$holder"
}

# on_terminal STEP… -- CMD…: the transcript goes to $scratch/tty.
on_terminal() {
    local rc=0

    [ -n "$pty" ] || return 200
    env --default-signal PS1='$ ' "$pty" "$@" >"$scratch/tty" 2>&1 || rc=$?
    [ "$rc" -ne 99 ] || tail -n 20 "$scratch/tty" | sed 's/^/# tty: /'
    return "$rc"
}

# ── Running ──────────────────────────────────────────────────────────────────

run() {
    local rc=0

    # shellcheck disable=SC2053 # it is a pattern
    [[ $1 == $pattern ]] || return
    count=$((count + 1))
    # The file of a job in the background is emptied only when that job runs.
    rm -f "$scratch"/{out,err,list,list.err}
    "$1" >"$scratch/log" || rc=$?
    case $rc in
    0) echo "ok $count - $1" ;;
    200) echo "ok $count - $1 # SKIP" ;;
    *)
        echo "not ok $count - $1"
        grep '^#' "$scratch/log"
        failed=$((failed + 1))
        ;;
    esac
}

tests() {
    sed -n '/^# ── Helpers/,/^# ── [^H]/!s/^\([a-z0-9_]*\)() {$/\1/p' "$0"
}

# Nothing of ours may outlive the tests, whatever went wrong.
clean_up() {
    local job

    for job in $(jobs -p); do
        kill -9 "$job" 2>/dev/null
    done
    rm -rf "$scratch"
}

# run_tests: all of them, in their order; answers whether none failed.
run_tests() {
    local name all

    trap clean_up EXIT
    mapfile -t all < <(tests)
    for name in "${all[@]}"; do
        run "$name"
    done
    echo "1..$count"
    [ "$failed" -eq 0 ]
}
