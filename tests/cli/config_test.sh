#!/bin/bash
# simba(1) and the config file, seen from outside.
#
#   config_test.sh SIMBA SCRATCH
#
# Prints TAP.
set -u
export LC_ALL=C

simba=$(realpath "$1")
scratch=$(mktemp -d "$2/simba-config.XXXXXX")
unset SIMBA_STORE
export SIMBA_CONFIG=$scratch/simba.conf
count=0
failed=0

# ok NAME CODE TEXT COMMAND…: exit code and a part of what it says.
ok() {
    local name=$1 wanted=$2 text=$3 got=0 said

    shift 3
    count=$((count + 1))
    said=$("$@" 2>&1 </dev/null) || got=$?
    if [ "$got" = "$wanted" ] && [[ $said == *"$text"* ]]; then
        echo "ok $count - $name"
    else
        echo "# exit code $got, wanted $wanted; said: $said"
        echo "not ok $count - $name"
        failed=1
    fi
}

config() {
    printf '%s\n' "$@" >"$SIMBA_CONFIG"
    chmod 600 "$SIMBA_CONFIG"
}

config "store = here" "[store here]" "url = sqlite:$scratch/a.db" "ttl = 2s" \
    "transition = 1s" "[store there]" "url = sqlite:$scratch/b.db"
ok config_file_names_the_store 0 "" "$simba" lock a -- test -e "$scratch/a.db"
ok store_option_takes_a_name 0 "" \
    "$simba" --store there lock a -- test -e "$scratch/b.db"
ok times_of_the_file_apply 78 "does not fit" \
    "$simba" lock a --kill-after 3s -- true
ok times_of_the_command_line_come_first 0 "" \
    "$simba" lock a --kill-after 3s --ttl 60s --transition 30s -- true
ok unknown_name_is_told 78 "nowhere" "$simba" --store nowhere lock a -- true

config "store = sqlite:$scratch/a.db" "log_level = info" "colour = red"
ok unknown_key_is_told 78 "simba.conf:3: colour" "$simba" lock a -- true

config "store = redis://:hunter2@localhost" "ttl=hunter2"
ok secrets_are_not_told 78 "simba.conf:2: ttl: no duration" \
    "$simba" lock a -- true

config "store = memory:a"
ok private_store_is_refused 78 "one process only" "$simba" lock a -- true

# Figures of a run, for Prometheus.
config "store = sqlite:$scratch/a.db"
ok metrics_file_is_written 0 "" \
    "$simba" lock a --metrics-file "$scratch/a.prom" -- true
ok metrics_tell_of_the_tenure 0 'mutex="a"} 1' \
    grep '^simba_acquires_total' "$scratch/a.prom"
ok metrics_leave_nothing_behind 0 "a.prom" \
    bash -c "ls $scratch | grep prom"
ok metrics_that_cannot_be_written_harm_nobody 0 "nowhere" \
    "$simba" lock a --metrics-file "$scratch/nowhere/a.prom" -- true

# Whatever is no regular file stays as it is.
mkfifo "$scratch/fifo.prom"
ln -s "$scratch/elsewhere" "$scratch/link.prom"
mkdir "$scratch/directory.prom"
for what in fifo link directory; do
    ok "metrics_spare_a_$what" 0 "$what.prom: is no regular file" \
        "$simba" lock a --metrics-file "$scratch/$what.prom" -- true
done
ok metrics_have_spared_them 0 "" \
    bash -c "[ -p $scratch/fifo.prom ] && [ -L $scratch/link.prom ] &&
             [ -d $scratch/directory.prom ] && [ ! -e $scratch/elsewhere ]"

echo "1..$count"
rm -rf "$scratch"
exit "$failed"
