# What the tests of the commands for admins have in common, beside lib.sh; who
# sources it was called as SCRIPT SIMBA SCRATCH [PTY [URL [PATTERN]]].
source "$(dirname "$0")/lib.sh"
begin "$(basename "$0" _test.sh)" "$@"
pty=${3-} pattern=${5-*}
SIMBA_STORE=${4:-sqlite:$scratch/simba.db}

export TZ=UTC0 TERM=xterm

is_on() {
    [[ $SIMBA_STORE == "$1"* ]]
}

# member KEY [LINE]: the value of a member of the JSON object on this line of
# stdin; the last line when none is given.
member() {
    sed -n "${2-\$}s/.*\"$1\":\(\"[^\"]*\"\|[^],}]*\).*/\1/p"
}

# has FILE TEXT: says what else is there if not.
has() {
    grep -qF -- "$2" "$1" && return
    echo "# $1 has no '$2' but:"
    sed 's/^/# /' "$1"
    return 1
}

# token_of NAME: of its owner; null when there is none.
token_of() {
    "$simba" --json show "$1" | member token
}

is_owned() {
    [ "$(token_of "$1")" != null ]
}

# is_in_line NAME ID
is_in_line() {
    "$simba" --json show "$1" | grep -qF "{\"id\":\"$2\",\"position\""
}

# wait_in_line NAME ID: in the background, until it has NAME; sets waiter.
wait_in_line() {
    "$simba" -q lock "$1" --id "$2" -- true &
    waiter=$!
    within 20 is_in_line "$1" "$2"
}

# line_of NAME: the ids of those who wait, in their order.
line_of() {
    "$simba" --json show "$1" | grep -o '"id":"[^"]*","position"' |
        cut -d '"' -f 4 | xargs
}
