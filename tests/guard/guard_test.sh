#!/bin/bash
# The guards for servers, each on a server of its own: a token that has been
# succeeded writes nothing, whatever it tries.
#
#   guard_test.sh postgres|mysql|redis TEXT
#
# TEXT is the program that prints the statements. Prints TAP; 77: not installed.
set -u
export LC_ALL=C

kind=$1
text=$(realpath "$2")
dir=$(mktemp -d /tmp/simba-guard-XXXXXX)
chmod 755 "$dir"
server=
count=0
failed=0

finish() {
    rc=$?
    if [ -n "$server" ]; then
        kill -QUIT "$server" 2>/dev/null # at once, and all of it
        [ "$kind" = postgres ] || kill -9 "$server" 2>/dev/null
        wait "$server" 2>/dev/null
    fi
    rm -rf "$dir"
    exit $rc
}
trap finish EXIT

# ok NAME WANTED GOT
ok() {
    count=$((count + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $count - guard_${kind}__$1"
    else
        echo "# wanted '$2', got '$3'"
        echo "not ok $count - guard_${kind}__$1"
        failed=1
    fi
}

skip() {
    echo "1..0 # SKIP $1 is not installed"
    exit 77
}

unprivileged() {
    if [ "$(id -u)" -eq 0 ]; then
        exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
    fi
    exec "$@"
}

# answers COMMAND…: waits until it succeeds.
answers() {
    local i

    for i in $(seq 1 300); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    echo "# the server does not start; its log ends with:"
    tail -n 20 "$dir/log" | sed 's/^/# /'
    exit 1
}

# ── Servers ──────────────────────────────────────────────────────────────────

start_postgres() {
    local bin

    bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
    [ -x "$bin/postgres" ] || skip PostgreSQL
    mkdir "$dir/data"
    [ "$(id -u)" -ne 0 ] || chown 65534:65534 "$dir" "$dir/data"
    cd "$dir" || exit 1
    (unprivileged "$bin/initdb" -D "$dir/data" -U simba -A trust -N) \
        >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
    unprivileged "$bin/postgres" -D "$dir/data" -k "$dir" -h '' -F \
        >>"$dir/log" 2>&1 &
    server=$!
    answers psql -h "$dir" -U simba -d postgres -c 'SELECT 1'
}

start_mysql() {
    command -v mariadbd >/dev/null || skip MariaDB
    [ "$(id -u)" -ne 0 ] || chown 65534:65534 "$dir"
    cd "$dir" || exit 1
    (unprivileged mariadb-install-db --no-defaults --datadir="$dir/data" \
        --auth-root-authentication-method=normal --skip-test-db) \
        >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
    unprivileged mariadbd --no-defaults --datadir="$dir/data" \
        --socket="$dir/s" --skip-networking --pid-file="$dir/pid" \
        >>"$dir/log" 2>&1 &
    server=$!
    answers mariadb --no-defaults -S "$dir/s" -u root \
        -e 'CREATE DATABASE IF NOT EXISTS simba'
}

start_redis() {
    local program

    # Debian has the server in redis-tools under another name, which it obeys.
    program=$(command -v redis-server || command -v redis-check-rdb) ||
        skip Redis
    (exec -a redis-server "$program" --port 0 --unixsocket "$dir/s" \
        --save '' --dir "$dir" --daemonize no) >"$dir/log" 2>&1 &
    server=$!
    answers redis-cli -s "$dir/s" PING
}

# ── Writing under a token ────────────────────────────────────────────────────

sql() {
    case $kind in
    postgres) psql -h "$dir" -U simba -d postgres -qAt -v ON_ERROR_STOP=1 ;;
    mysql) mariadb --no-defaults -S "$dir/s" -u root -N -B -n simba ;;
    esac
}

# Parameters by hand, as the shells have none of their own.
raise() {
    case $kind in
    postgres)
        echo "PREPARE raise (varchar, bigint) AS $("$text" postgres raise);"
        echo "EXECUTE raise ('r', $1);"
        ;;
    mysql)
        echo "PREPARE raise FROM '$("$text" mysql raise)';"
        echo "SET @r = 'r', @t = $1; EXECUTE raise USING @r, @t;"
        ;;
    esac
}

ask() {
    case $kind in
    postgres)
        echo "PREPARE ask (bigint, varchar) AS $("$text" postgres ask);"
        echo "EXECUTE ask ($1, 'r');"
        ;;
    mysql)
        echo "PREPARE ask FROM '$("$text" mysql ask)';"
        echo "SET @r = 'r', @t = $1; EXECUTE ask USING @t, @r;"
        ;;
    esac
}

# sql_write TOKEN: 1 and the row is written, or 0.
sql_write() {
    local may

    # A first transaction only asks, as a program would before it goes on; the
    # guard's lock then lasts to the end of the second, which does both.
    may=$({
        echo "START TRANSACTION;"
        raise "$1"
        ask "$1"
        echo "ROLLBACK;"
    } | sql) || return
    if [ "$may" = 1 ]; then
        {
            echo "START TRANSACTION;"
            raise "$1"
            ask "$1"
            echo "UPDATE data SET v = $1;"
            echo "COMMIT;"
        } | sql
    else
        echo "$may"
    fi
}

# ask_shared TOKEN: of one that shares, as docs/guards.md has it.
ask_shared() {
    local lock=

    [ "$kind" != mysql ] || lock=' FOR UPDATE'
    raise 0
    echo "SELECT CASE WHEN token <= $1 THEN 1 ELSE 0 END FROM simba_guard" \
        "WHERE resource = 'r'$lock;"
}

# sql_shares TOKEN: what one that shares is told.
sql_shares() {
    {
        echo "START TRANSACTION;"
        ask_shared "$1"
        echo "ROLLBACK;"
    } | sql
}

# waits TOKEN: raises the mark, but waits for no more than a second.
waits() {
    local soon="SET innodb_lock_wait_timeout = 1;"

    [ "$kind" != postgres ] || soon="SET lock_timeout = '1s';"
    if { echo "$soon"; raise "$1"; } | sql >/dev/null 2>&1; then
        echo no
    else
        echo yes
    fi
}

# sql_story_of_sharers
sql_story_of_sharers() {
    local first=$((new + 1)) second=$((new + 2)) alone=$((new + 3)) answer

    ok sharer_passes 1 "$(sql_shares $second)"
    ok older_sharer_passes_too 1 "$(sql_shares $first)"
    # One that shares and was told that it may write has not done so yet.
    mkfifo "$dir/to" "$dir/from"
    sql <"$dir/to" >"$dir/from" &
    exec 8>"$dir/to" 9<"$dir/from"
    {
        echo "START TRANSACTION;"
        ask_shared $first
    } >&8
    read -r answer <&9
    ok sharer_is_told_before_it_writes 1 "$answer"
    ok successor_waits_for_it yes "$(waits $alone)"
    {
        echo "UPDATE data SET v = $first;"
        echo "COMMIT;"
    } >&8
    exec 8>&-
    read -r answer <&9
    exec 9<&-
    wait $!
    ok successor_writes_then 1 "$(sql_write $alone)"
    ok sharer_is_refused_then 0 "$(sql_shares $second)"
    ok what_was_written_last_stays $alone "$(echo 'SELECT v FROM data;' | sql)"
}

# redis_write TOKEN
redis_write() {
    redis-cli -s "$dir/s" EVAL "$("$text" redis)" 2 '{r}:mark' '{r}' "$1" \
        SET "$1" 2>&1 | sed 's/the mark.*//; s/that is no.*//; s/^(error) //; s/ *$//'
}

# ── The story ────────────────────────────────────────────────────────────────

old=1794802914776000
new=1794802914776001

"start_$kind"
case $kind in
redis)
    ok first_token_writes OK "$(redis_write $old)"
    ok its_owner_writes_again OK "$(redis_write $old)"
    ok successor_writes OK "$(redis_write $new)"
    ok predecessor_is_refused STALETOKEN "$(redis_write $old)"
    ok short_token_is_smaller STALETOKEN "$(redis_write 9)"
    ok nothing_was_written $new "$(redis-cli -s "$dir/s" GET '{r}')"
    ok longest_token_is_greatest OK "$(redis_write 18446744073709551615)"
    ok command_answers_for_itself STALETOKEN "$(redis_write $new)"
    redis-cli -s "$dir/s" DEL '{r}:mark' >/dev/null
    for token in '' 0 000 -1 4x ' 5' 118446744073709551615; do
        ok "no_token_'$token'_passes" BADTOKEN "$(redis_write "$token")"
    done
    ok and_leaves_no_mark 0 "$(redis-cli -s "$dir/s" EXISTS '{r}:mark')"
    ;;
*)
    {
        echo "$("$text" "$kind" create);"
        echo "CREATE TABLE data (v bigint); INSERT INTO data VALUES (0);"
    } | sql
    ok first_token_writes 1 "$(sql_write $old)"
    ok its_owner_writes_again 1 "$(sql_write $old)"
    ok successor_writes 1 "$(sql_write $new)"
    ok predecessor_is_refused 0 "$(sql_write $old)"
    ok nothing_was_written $new "$(echo 'SELECT v FROM data;' | sql)"
    sql_story_of_sharers
    ;;
esac
echo "1..$count"
exit $failed
