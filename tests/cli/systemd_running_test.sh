#!/bin/bash
# The example units under a running systemd, with their hardening: they start,
# lock, lead, stop, restart, and feed the watchdog.
#
#   systemd_running_test.sh SIMBA SCRATCH URL
#
# By with_systemd, which says where that systemd is; URL is of a store that can be
# reached there. Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin systemd-running "$@"
pattern=* url=$3
root=/proc/$SIMBA_SYSTEMD/root

# ── Helpers ──────────────────────────────────────────────────────────────────

in_systemd() {
    nsenter -t "$SIMBA_SYSTEMD" -m -p -u -i -C -- "$@"
}

# job KIND NAME COMMAND [LINE…]: what the units KIND@NAME do.
job() {
    printf 'SIMBA_STORE=%s\nCOMMAND=%s\n' "$url" "$3" \
        >"$root/etc/simba/$1/$2.env"
    [ $# -eq 3 ] || printf '%s\n' "${@:4}" >>"$root/etc/simba/$1/$2.env"
}

# other_host KIND: the same unit once more, as if it were on another host: it
# has another name, and works for the same mutex.
other_host() {
    cp "$root/etc/systemd/system/simba-$1@.service" \
        "$root/etc/systemd/system/other-$1@.service"
    in_systemd systemctl daemon-reload
}

# unit_is UNIT PROPERTY GLOB
unit_is() {
    local value

    value=$(in_systemd systemctl show -P "$2" "$1")
    [[ $value == $3 ]] || {
        echo "# $1: $2 is '$value', not '$3'" >&2
        return 1
    }
}

# explain UNIT: why it is not as it should be.
explain() {
    in_systemd journalctl --no-pager -o cat -u "$1" | tail -n 20 | sed 's/^/# /'
    return 1
}

in_journal() {
    in_systemd journalctl --no-pager -o cat -u "$1" | grep -q "$2"
}

# pid_in UNIT NAME: the process of that name in its control group, as this
# machine numbers it.
pid_in() {
    local pid name

    for pid in $(cat "$root/sys/fs/cgroup$(in_systemd systemctl show -P \
        ControlGroup "$1")/cgroup.procs"); do
        read -r name <"/proc/$pid/comm"
        [ "$name" != "$2" ] || echo "$pid"
    done
}

nothing_runs_in() {
    [ -z "$(in_systemd systemctl show -P ControlGroup "$1")" ] || [ ! -s \
        "$root/sys/fs/cgroup$(in_systemd systemctl show -P ControlGroup "$1")/cgroup.procs" ]
}

# end_lock UNIT: without waiting for the rest of its least time.
end_lock() {
    in_systemd systemctl kill -s KILL "$1" && within 20 nothing_runs_in "$1"
}

# ── Units ────────────────────────────────────────────────────────────────────

lead_unit_leads_and_passes_on() {
    job lead x '/bin/sleep 1000'
    other_host lead
    in_systemd systemctl start simba-lead@x || explain simba-lead@x || return 1
    unit_is simba-lead@x StatusText "leads 'lead/x', token [0-9]*" &&
        unit_is simba-lead@x SubState running &&
        within 20 [ -n "$(pid_in simba-lead@x sleep)" ] || return 1
    in_systemd systemctl start --no-block other-lead@x
    within 20 unit_is other-lead@x StatusText "stands by for 'lead/x'" &&
        unit_is other-lead@x ActiveState activating || return 1
    in_systemd systemctl stop simba-lead@x
    same "how it ended" "success" \
        "$(in_systemd systemctl show -P Result simba-lead@x)" &&
        nothing_runs_in simba-lead@x &&
        within 20 unit_is other-lead@x ActiveState active &&
        unit_is other-lead@x StatusText "leads 'lead/x', token [0-9]*" ||
        explain other-lead@x || return 1
    in_systemd systemctl stop other-lead@x &&
        unit_is other-lead@x ActiveState inactive &&
        nothing_runs_in other-lead@x
}

# What was lost is told in the journal, and won again.
lead_unit_tells_a_loss() {
    local token

    job lead lost '/bin/sleep 1000'
    in_systemd systemctl start simba-lead@lost || return 1
    token=$(in_systemd systemctl show -P StatusText simba-lead@lost)
    in_systemd env SIMBA_STORE="$url" simba break lead/lost --now \
        --token "${token##* }" --reason tried || return 1
    within 40 in_journal simba-lead@lost 'contend again' &&
        within 40 unit_is simba-lead@lost StatusText "leads *" &&
        unit_is simba-lead@lost NRestarts 0 || explain simba-lead@lost ||
        return 1
    in_systemd systemctl stop simba-lead@lost
}

lead_unit_is_restarted_when_simba_is_killed() {
    local main

    job lead killed '/bin/sleep 1000'
    in_systemd systemctl start simba-lead@killed || return 1
    main=$(in_systemd systemctl show -P MainPID simba-lead@killed)
    in_systemd kill -9 "$main"
    within 40 unit_is simba-lead@killed NRestarts 1 &&
        within 40 unit_is simba-lead@killed SubState running &&
        within 40 [ "$(pid_in simba-lead@killed sleep | wc -l)" -eq 1 ] ||
        explain simba-lead@killed || return 1
    in_systemd systemctl stop simba-lead@killed && nothing_runs_in simba-lead@killed
}

# simba feeds it only while its guardian runs. It passes on what signals it gets,
# so that the watchdog must kill it.
watchdog_restarts_what_hangs() {
    local unit=simba-lead@hangs restarts=0 name pid

    job lead hangs '/bin/sleep 1000'
    mkdir -p "$root/etc/systemd/system/$unit.service.d"
    printf '[Service]\nWatchdogSec=2s\n' \
        >"$root/etc/systemd/system/$unit.service.d/soon.conf"
    in_systemd systemctl daemon-reload
    in_systemd systemctl start "$unit" || return 1
    sleep 3 # longer than the watchdog: it is fed
    unit_is "$unit" NRestarts 0 || return 1
    for name in simba simba-guardian; do
        pid=$(pid_in "$unit" "$name" | head -n 1)
        kill -STOP "$pid" || return 1
        within 12 unit_is "$unit" NRestarts $((++restarts)) &&
            within 20 unit_is "$unit" SubState running &&
            in_journal "$unit" 'Watchdog timeout' && is_gone "$pid" ||
            explain "$unit" || return 1
    done
    in_systemd systemctl stop "$unit"
}

every_unit_runs_at_its_beats() {
    job every x '/usr/bin/tee -a /var/lib/simba/beats' PERIOD=200ms
    in_systemd systemctl start simba-every@x || explain simba-every@x || return 1
    within 20 unit_is simba-every@x StatusText "leads 'every/x', token *" &&
        within 20 test -e "$root/var/lib/simba/beats" &&
        unit_is simba-every@x SubState running || explain simba-every@x ||
        return 1
    in_systemd systemctl restart simba-every@x &&
        within 20 unit_is simba-every@x StatusText "leads 'every/x', token *" ||
        return 1
    in_systemd systemctl stop simba-every@x &&
        unit_is simba-every@x Result success && nothing_runs_in simba-every@x
}

# Of two hosts one runs the job; for the other that is no failure.
lock_unit_runs_once() {
    printf '#!/bin/sh\necho run >>/var/lib/simba/runs\n' \
        >"$root/usr/local/bin/note-run"
    chmod +x "$root/usr/local/bin/note-run"
    job lock x note-run
    other_host lock
    in_systemd systemctl start --no-block simba-lock@x
    within 20 test -s "$root/var/lib/simba/runs" || explain simba-lock@x || return 1
    in_systemd systemctl start other-lock@x || explain other-lock@x || return 1
    unit_is other-lock@x Result success &&
        same runs run "$(cat "$root/var/lib/simba/runs")" || return 1
    end_lock simba-lock@x
}

lock_timer_starts_its_unit() {
    job lock timed '/usr/bin/touch /var/lib/simba/timed'
    printf '[Timer]\nOnCalendar=\nOnActiveSec=1ms\nAccuracySec=1ms\n%s\n' \
        RandomizedDelaySec=0 >"$scratch/soon.conf"
    mkdir -p "$root/etc/systemd/system/simba-lock@timed.timer.d"
    cp "$scratch/soon.conf" "$root/etc/systemd/system/simba-lock@timed.timer.d"
    in_systemd systemctl daemon-reload
    in_systemd systemctl start simba-lock@timed.timer || return 1
    within 20 test -e "$root/var/lib/simba/timed" || explain simba-lock@timed ||
        return 1
    in_systemd systemctl stop simba-lock@timed.timer && end_lock simba-lock@timed
}

# The hardening is in force, in CMD as well, of every kind of unit.
units_are_hardened() {
    local kind

    cat >"$root/usr/local/bin/look-around" <<'EOT'
#!/bin/sh
{
    grep -q "^NoNewPrivs:.1" /proc/self/status || echo new privileges
    ! touch /usr/x /etc/x /boot/x || echo files of the system
    ! touch /root/x /home/x || echo homes
    [ ! -e /tmp/outside ] || echo files of others in /tmp
    ! [ -e /dev/kmsg ] || echo devices
    ! mkdir /sys/fs/cgroup/x || echo control groups
    ! hostname x || echo host name
    ! chmod u+s "$1.seen" || echo set-user-id
    echo over
} 2>/dev/null >"$1.seen"
mv "$1.seen" "$1"
exec sleep 1000
EOT
    chmod +x "$root/usr/local/bin/look-around"
    touch "$root/tmp/outside"
    for kind in lock lead every; do
        job "$kind" hard "look-around /var/lib/simba/$kind.hard" PERIOD=1s
        in_systemd systemctl start --no-block "simba-$kind@hard"
        within 20 test -e "$root/var/lib/simba/$kind.hard" ||
            explain "simba-$kind@hard" || return 1
        same "$kind is kept from all of" over \
            "$(cat "$root/var/lib/simba/$kind.hard")" || return 1
        if [ "$kind" = lock ]; then
            end_lock simba-lock@hard
        else
            in_systemd systemctl stop "simba-$kind@hard"
        fi || return 1
    done
}

run_tests
