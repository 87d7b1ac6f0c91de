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

# A store that was forgotten.
config "store = sqlite:$scratch/a.db"
ok verbose_names_the_store 0 "store sqlite:$scratch/a.db, from $SIMBA_CONFIG:1" \
    "$simba" -v lock a -- true
ok secrets_of_the_store_are_hidden 69 "store redis://127.0.0.1:1, as given" \
    "$simba" -v --store redis://me:hunter2@127.0.0.1:1 list
ok mistyped_variable_is_told 0 \
    "there is no variable SIMBA_STOR; did you mean SIMBA_STORE?" \
    env SIMBA_STOR=x "$simba" lock a -- true
ok variables_of_others_are_not 1 "" \
    bash -c "SIMBA_COLOUR=x SIMBA_TOKEN=1 '$simba' lock a -- true 2>&1 | grep ."
ok quiet_says_nothing_of_them 1 "" \
    bash -c "SIMBA_STOR=x '$simba' -q lock a -- true 2>&1 | grep ."
config "store_required = yes"
ok default_can_be_forbidden 78 "simba.conf:1: store_required: no store is named" \
    "$simba" lock a -- true
ok forbidden_default_needs_a_name 0 "" \
    "$simba" --store "sqlite:$scratch/a.db" lock a -- true
config "ttl = 10s"
ok store_can_be_required 78 "which store?" "$simba" --store required lock a -- \
    true
ok required_store_may_be_a_variable 0 "" env SIMBA_STORE="sqlite:$scratch/a.db" \
    "$simba" --store required lock a -- true
ok program_is_told_of_the_variable 0 "pair" \
    env SIMBA_STORE="sqlite:$scratch/a.db" \
    "$simba" --store required bench pair -n 1

# Root's default, and what /etc says, in a file system of our own.
if [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
    mkdir -p "$scratch/etc" "$scratch/home/.config/simba"
    cp /etc/passwd "$scratch/etc"
    cp "$simba" "$scratch/simba" # the build may be in root's home
    echo "ttl = 5s" >"$scratch/home/.config/simba/simba.conf"
    private() {
        unshare -m env -u SIMBA_CONFIG HOME="$scratch/home" bash -c "
            set -e
            mount -t tmpfs none /var/lib && mount -t tmpfs none /root
            mount --bind $scratch/etc /etc
            $1"
    }
    ok root_shares_one_file 0 "store sqlite:/var/lib/simba/simba.db, the default" \
        private "'$scratch/simba' -v lock a -- true; test -e /var/lib/simba/simba.db
                 HOME=/root '$scratch/simba' lock a -- env HOME=/ '$scratch/simba' -q list | grep -x a"
    ok former_file_of_root_is_told 78 "two files are two mutexes" \
        private "mkdir -p /root/.local/state/simba
                 : >/root/.local/state/simba/simba.db
                 '$scratch/simba' lock a -- true"
    ok etc_forbids_the_default_of_all 78 "/etc/simba.conf:1: store_required" \
        private "echo store_required = yes >/etc/simba.conf
                 '$scratch/simba' lock a -- true"
    ok file_of_the_user_may_allow_it 0 "" \
        private "echo store_required = yes >/etc/simba.conf
                 echo store_required = no >'$scratch/home/.config/simba/simba.conf'
                 '$scratch/simba' lock a -- true"
fi

# Figures of a run, for Prometheus.
config "store = sqlite:$scratch/a.db"
ok metrics_file_is_written 0 "" \
    "$simba" lock a --metrics-file "$scratch/a.prom" -- true
ok metrics_tell_of_the_tenure 0 'mutex="a"} 1' \
    grep '^simba_acquires_total' "$scratch/a.prom"
ok metrics_tell_what_became_of_the_run 0 'result="ok"} 1' \
    cat "$scratch/a.prom"
ok metrics_tell_when_and_how_it_ended 0 '5 7 1' awk \
    '/^simba_run_(started|ended)_timestamp_seconds{mutex="a"} [1-9]/ { n++ }
    /^simba_run_waited_seconds{mutex="a"} 0\.[0-9]/ { n++ }
    /^simba_runs_total{mutex="a"} 1/ { n++ }
    /^simba_leads{.*mutex="a"} 0/ { n++ }
    /^simba_run_exit_code/ { code = $2 } /result="failed"/ { failed = $2 }
    END { print n, code, failed }' <("$simba" lock a --metrics-file \
    "$scratch/failed-run" -- sh -c 'exit 7' || cat "$scratch/failed-run")
"$simba" -q lock taken -- sh -c 'until [ -e "$0/let-go" ]; do sleep 0.01; done' \
    "$scratch" &
timeout 20 bash -c "until '$simba' held taken; do sleep 0.01; done"
ok metrics_tell_that_it_was_waited_for_in_vain 75 'result="not_acquired"} 1' \
    bash -c "'$simba' -q lock taken -w 100ms --metrics-file '$scratch/vain' -- \
             true; rc=\$?; cat '$scratch/vain'; exit \$rc"
: >"$scratch/let-go"
wait
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
ok metrics_are_missed_aloud_without_waiting 0 "fifo.prom: is no regular file" \
    "$simba" lock a -n --metrics-file "$scratch/fifo.prom" -- true
ok metrics_have_spared_them 0 "" \
    bash -c "[ -p $scratch/fifo.prom ] && [ -L $scratch/link.prom ] &&
             [ -d $scratch/directory.prom ] && [ ! -e $scratch/elsewhere ]"

echo "1..$count"
rm -rf "$scratch"
exit "$failed"
