#!/bin/bash
# How many rows the statements of a request read while 2,000 wait for its mutex,
# and all statements of a hand-over among 400, as the server counts them: a
# hand-over must not grow with the queue.
#
#   with_postgres queue_plan_test.sh SIMBA STATEMENTS.SQL queue|hand_over
#   with_mysql queue_plan_test.sh SIMBA STATEMENTS.SQL queue|hand_over
set -eu
simba=$1 statements=$2 what=$3
waiters=2000 most=60 hand_over_most=260
me=$(printf '%032d' 77)
case $SIMBA_SERVER_URL in
postgres*) server=postgres ;;
*) server=mysql ;;
esac

run() {
    if [ $server = postgres ]; then
        psql -X -A -t -v ON_ERROR_STOP=1 "$SIMBA_SERVER_URL"
    else
        mariadb --no-defaults -S "$SIMBA_SERVER_SOCKET" -u root -N simba
    fi
}

# statement NAME: its text, for mutex m and attempt 77, which is at position 11.
statement() {
    awk -v name="-- name: $1" '$0 == name { on = 1; next }
        /^-- name: / { on = 0 } on && !/^--/' "$statements" |
        sed "s/\\\$1\\>/'m'/g; s/\\\$23\\?\\>/'$me'/g; s/\\\$4[1-4]\\>/11/g"
}

# Out of the queue: a part of apply.
gone() {
    if [ $server = postgres ]; then
        echo "WITH m AS (SELECT 1)"
        statement apply | sed -n '/DELETE FROM simba_line/,/^)/p' | sed '$d'
    else
        echo "SET @simba = 1;"
        statement apply_gone | sed 's/;$//'
    fi
}

load() {
    statement load
}

fill() {
    echo "INSERT INTO simba_line
        (mutex, attempt, id, process, bell, place, lapses_at) VALUES"
    cat "$scratch/rows"
    echo ";"
}

# rows_read NAME: the most rows that any one step of it reads. PostgreSQL has
# planned it when nobody waited, as a session that is used has.
rows_read() {
    if [ $server = postgres ]; then
        {
            echo "TRUNCATE simba_line;"
            statement session_setup | sed "s/'m'::int/pg_backend_pid()/"
            echo "; PREPARE planned AS"
            "$1"
            echo "; EXECUTE planned;"
            fill
            echo "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE planned"
        } | run | tee "$scratch/plan" |
            grep -oE '(actual rows=|Removed by [A-Za-z ]*: )[0-9]+' |
            grep -oE '[0-9]+' | sort -n | tail -1
    else
        {
            echo "TRUNCATE simba_line;"
            fill
            echo "FLUSH STATUS;"
            "$1"
            echo "; SELECT 'read', sum(variable_value)
                FROM information_schema.session_status
                WHERE variable_name LIKE 'Handler_read%'
                    OR variable_name = 'Sort_rows';"
        } | run | tee "$scratch/plan" | sed -n 's/^read\t//p'
    fi
}

# all_read: what was read in all tables so far, by all sessions that have ended.
all_read() {
    if [ $server = postgres ]; then
        echo "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))
            FROM pg_stat_user_tables" | run
    else
        echo "SELECT sum(variable_value) FROM information_schema.global_status
            WHERE variable_name LIKE 'Handler_read%'" | run | cut -d. -f1
    fi
}

# hand_overs N: so many among 400, by `bench waiters`; prints what that read,
# their coming and going included.
hand_overs() {
    local before after
    before=$(all_read)
    "$simba" bench waiters -q --contenders 400 -n "$1" --seconds 60 \
        --store "$SIMBA_SERVER_URL" >"$scratch/bench"
    # PostgreSQL's sessions tell what they have read when they end, or later.
    for _ in $(seq 100); do
        after=$(all_read)
        [ "$after" = "$before" ] || [ "$after" != "$(sleep 0.1 && all_read)" ] ||
            break
    done
    echo $((after - before))
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$simba" init --store "$SIMBA_SERVER_URL" >/dev/null
"$simba" lock m --store "$SIMBA_SERVER_URL" -- true
if [ "$what" = hand_over ]; then
    few=$(hand_overs 10)
    many=$(hand_overs 110)
    count=$(((many - few) / 100))
    verdict=ok
    [ "$count" -le $hand_over_most ] || verdict='not ok'
    echo "$verdict 1 - a hand-over reads few rows of a long queue ($count)"
    echo 1..1
    [ "$verdict" = ok ]
    exit
fi
for i in $(seq $waiters); do
    printf "%s('m', '%032d', 'x', 'p', 0, %d, 9000000000000)" \
        "$([ "$i" = 1 ] || echo ,)" $((i * 7)) "$i"
done >"$scratch/rows"
number=0
for name in load gone; do
    number=$((number + 1))
    count=$(rows_read $name)
    if [ "${count:-$((most + 1))}" -gt $most ]; then
        sed 's/^/# /' "$scratch/plan" | tail -40
        echo "not ok $number - $name reads few rows of a long queue ($count)"
        exit 1
    fi
    echo "ok $number - $name reads few rows of a long queue ($count)"
done
echo 1..2
