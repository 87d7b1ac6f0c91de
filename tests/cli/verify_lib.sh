# Logs for simba verify to read, and what it tells of them; beside lib.sh.

boot=00000000-0000-4000-8000-000000000001

# Lines of a trace. WHO is one digit: its handle, id and attempt follow from
# it. Times are milliseconds; the lease is 10 s, of which 9,780 ms are relied on.
#
#   sent MS WHO N OP [MEMBERS]        answered MS WHO N OP [MEMBERS]
sent() {
    line sent "$1" "$2" "$3" "$4" \
        ",\"ttl_ms\":6000,\"transition_ms\":4000,\"waiter_ms\":40000${5:+,$5}"
}

answered() {
    line answered "$1" "$2" "$3" "$4" ",\"status\":\"ok\"${5:+,$5}"
}

line() {
    printf '{"trace":"%s","us":%d,"boot":"%s","pid":%d,' "$1" $((1000 * $2)) \
        "$boot" "$3"
    printf '"handle":"%016x","n":%d,"request":"%s","mutex":"m","id":"i%d",' \
        "$3" "$4" "$5" "$3"
    printf '"attempt":"%032x"%s}\n' "${attempt-$3}" "${6-}"
}

# asked MS WHO N OP ANSWER: sent, and answered a millisecond later.
asked() {
    sent "$1" "$2" "$3" "$4"
    answered $(($1 + 1)) "$2" "$3" "$4" "${5-}"
}

mine() {
    echo "\"mine\":true,\"token\":$1"
}

queued() {
    echo "\"queued\":true,\"position\":$1"
}

# on_host N COMMAND…: what it logs is of another boot, whose clock counts from
# anything. The store's time is 1,000,000 + the time of host 1 in these.
on_host() {
    local boot=${boot%?}$1

    shift
    "$@"
}

# yes TOKEN STORE_MS
yes() {
    echo "$(mine "$1"),\"store_ms\":$2"
}

# as_before: the lines on stdin as traces had them before words were changed.
as_before() {
    sed -e 's/"request":/"op":/' -e 's/"queued":/"in_line":/' \
        -e 's/"position":/"place":/' -e 's/"trace":"wake_up"/"trace":"hint"/'
}

# event NAME MS ID TOKEN [MEMBERS]: a line of simba --json lock.
event() {
    printf '{"event":"%s","mutex":"m","id":"%s","token":%d,"unix_ms":1,' \
        "$1" "$3" "$4"
    printf '"boot_ms":%d%s,"boot":"%s"}\n' "$2" "${5:+,$5}" "$boot"
}

# fault WHAT FROM UNTIL: a line of whoever makes faults.
fault() {
    printf '{"event":"fault","fault":"%s","boot_ms":%d,"until_ms":%d,"boot":"%s"}\n' \
        "$1" "$2" "$3" "$boot"
}

# finds WORD…: the log on stdin has these findings, in this order.
finds() {
    local wanted="$*" got code=0

    cat >"$scratch/a.log"
    "$simba" verify "$scratch/a.log" >"$scratch/out" 2>"$scratch/err" || code=$?
    got=$(sed -n 's/^[^:]*:[0-9]*: \([a-z-]*\): .*/\1/p' "$scratch/out")
    got=$(echo $got)
    if [ "$got" != "$wanted" ] || [ -s "$scratch/err" ] ||
        [ "$code" != $(($# > 0)) ]; then
        echo "# wanted '$wanted', got '$got', exit $code:"
        sed 's/^/# /' "$scratch/out" "$scratch/err"
        return 1
    fi
}
