#!/bin/bash
# The commands that the Redis store sends: all are known to Redis 6.2, and
# those that its README says a user needs are those that it uses and is tested
# with.
#
#   commands_test.sh SOURCES
#
# Prints TAP.
set -u
export LC_ALL=C

top=$1
store=$top/src/backends/redis
count=0
failed=0

# Every command of Redis 6.2 that is used, for all of us to see when one is
# added: look up since when it is there.
known="acl|whoami asking auth cluster|slots config|get del eval evalsha exists
get hdel hget hgetall hlen hmget hset incr info mget pexpire pttl publish pubsub|numsub scan select
sentinel set subscribe time unsubscribe wait zadd zcard zmscore zrange zrem
zscore"

# What came after 6.2: commands, options, and things of scripts.
newer="FCALL|FUNCTION|EVAL_RO|EVALSHA_RO|EXPIRETIME|PEXPIRETIME|LMPOP|ZMPOP|\
SINTERCARD|SSUBSCRIBE|SPUBLISH|SHARDCHANNELS|SHARDNUMSUB|HPEXPIRE|HEXPIRE|\
WAITAOF|CLUSTER SHARDS|ACL DRYRUN|#!lua|acl_check_cmd|'PEXPIRE'.*'(NX|XX|GT|LT)'|\
'SET'.*'NX'.*'GET'|'SET'.*'GET'.*'NX'"

check() { # NAME WHAT-SHOULD-BE-EMPTY
    count=$((count + 1))
    if [ -z "$2" ]; then
        echo "ok $count - $1"
    else
        echo "# $2" | tr '\n' ' '
        echo
        echo "not ok $count - $1"
        failed=1
    fi
}

words() {
    tr ' ' '\n' | grep . | sort -u
}

# PUBSUB, 'NUMSUB' and the like are one command.
in_scripts() {
    grep -ohE "redis\.p?call\('[A-Z]+'(, '[A-Z]+')?" "$store"/*.lua |
        sed -E "s/redis\.p?call\('//; s/'//g; s/^PUBSUB, /PUBSUB|/; s/,.*//"
}

# The first of the words in braces, or the word that is chosen among two.
in_sources() {
    cat "$store"/*.c | tr '\n' ' ' | tr -s ' ' |
        grep -oE '(\{|\? |: |say_one\([^"]*|send_about\([^"]*|begin\([^"]*)"[A-Z]{3,}"(, "[A-Z]+")?' |
        grep -oE '"[A-Z]{3,}"(, "[A-Z]+")?' | tr -d '"' |
        grep -vE '^(LOADING|MOVED|ASK|TRYAGAIN|CLUSTERDOWN|CROSSSLOT|READONLY|MASTERDOWN|UNBLOCKED|OOM|BUSY|MISCONF|NOREPLICAS|NOPERM|NOAUTH|WRONGPASS|DENIED|WRONGTYPE|NOSCRIPT)$' |
        sed -E 's/^(ACL|CLUSTER|CONFIG|PUBSUB), /\1|/; s/,.*//'
}

scripts=$(in_scripts | tr A-Z a-z | words)
sources=$(in_sources | tr A-Z a-z | words)
readme=$(sed -n '/^## What its user needs/,/^## /p' "$store/README.md" |
    grep -oE '\+[a-z|]+' | tr -d '+' | words)
tested=$(sed -n '/redis_acl\[\]/,/;/p' "$top/tests/fixtures/redis_shapes.c" |
    grep -oE '\+[a-z|]+' | tr -d '+' | words)

[ "$(wc -w <<<"$scripts")" -gt 15 ] && [ "$(wc -w <<<"$sources")" -gt 12 ]
check "the commands are found" "$([ $? = 0 ] || echo "$scripts $sources")"
check "Redis 6.2 knows them all" \
    "$(comm -13 <(words <<<"${known//$'\n'/ }") \
        <(printf '%s\n' "$scripts" "$sources" | sort -u))"
check "nothing newer than 6.2 is used" \
    "$(grep -nE "$newer" "$store"/*.c "$store"/*.lua)"
# AUTH is always allowed; sentinels have users of their own.
check "the README names what is used" \
    "$(comm -13 <(echo "$readme") \
        <(printf '%s\n' "$scripts" "$sources" | sort -u |
            grep -vxE 'auth|sentinel'))"
check "and nothing that is not" \
    "$(comm -23 <(echo "$readme") \
        <(printf '%s\n' "$scripts" "$sources" | sort -u))"
# What only clusters and the doctor want is not in the list of the TLS server.
check "the README's list is tested" \
    "$(comm -3 <(echo "$tested") \
        <(grep -vxE 'cluster\|slots|asking|config\|get|acl\|whoami' \
            <<<"$readme"))"
echo "1..$count"
exit $failed
