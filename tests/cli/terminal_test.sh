#!/bin/bash
# simba lock and lead on a terminal, as a person has it: keys, job control, the
# size of the window.
#
#   terminal_test.sh SIMBA SCRATCH PTY lock|lead [PATTERN]
#
# As lock_test.sh.
set -u
source "$(dirname "$0")/run_lib.sh"
pattern=${5-*}
export verb=$4

# ── Terminals ────────────────────────────────────────────────────────────────

command_has_the_terminal() {
    on_terminal -- "$simba" "$verb" t -- bash -c '
        read -r -a f <"/proc/$$/stat"; test "${f[4]}" = "${f[7]}"'
}

keyboard_reaches_the_command() {
    on_terminal expect:ready 'send:hello\n' expect:got-hello -- \
        "$simba" "$verb" t -- sh -c 'echo ready; read -r x; echo "got-$x"'
}

control_c_reaches_the_command() {
    local rc=0

    on_terminal expect:ready 'send:\x03' -- "$simba" "$verb" t -- \
        sh -c 'trap "echo trapped; exit 9" INT; echo ready
            while :; do sleep 0.01; done' || rc=$?
    [ "$rc" -ne 200 ] || return 200
    same code 9 "$rc" && grep -q trapped "$scratch/tty"
}

control_c_ends_the_wait() {
    local rc=0

    hold t || return 1
    on_terminal 'until:guardian_of $(cat $scratch/waiting)' 'send:\x03' -- \
        sh -c 'echo $$ >$scratch/waiting; exec "$simba" "$verb" t -- true' ||
        rc=$?
    let_go
    [ "$rc" -ne 200 ] || return 200
    same code 130 "$rc"
}

long_wait_is_told_on_a_terminal() {
    local rc=0

    hold t --id its-owner || return 1
    on_terminal "expect:simba: waiting for 't', owned by its-owner" \
        'send:\x03' -- "$simba" "$verb" t -- true || rc=$?
    let_go
    [ "$rc" -ne 200 ] || return 200
    same code 130 "$rc"
}

control_z_and_fg() {
    on_terminal 'expect:$ ' \
        "send:$simba $verb t -- sh -c 'echo re''ady; read x; echo go''t-\$x'\n" \
        expect:ready 'send:\x1a' expect:Stopped 'expect:$ ' \
        "send:$simba lock t -n -- true; echo code''-\$?\n" expect:code-75 \
        'expect:$ ' 'send:fg\n' 'expect:simba' 'send:hello\n' \
        expect:got-hello 'expect:$ ' 'send:exit 0\n' -- \
        bash --norc --noprofile -i
}

# The shell waits for the script, and the script does not see who is stopped.
control_z_stops_a_script_as_well() {
    cat >"$scratch/script" <<'EOF'
"$simba" "$verb" t -- sh -c 'echo ready; read -r x; echo "got-$x"'
echo after
EOF
    on_terminal 'expect:$ ' 'send:sh $scratch/script\n' \
        expect:ready 'send:\x1a' expect:Stopped 'expect:$ ' \
        'send:fg\n' expect:script 'send:hello\n' \
        expect:got-hello expect:after 'expect:$ ' 'send:exit 0\n' -- \
        bash --norc --noprofile -i
}

control_z_within_another_lock() {
    cat >"$scratch/script" <<'EOF'
exec "$simba" lock outer -- "$simba" "$verb" t -- \
    sh -c 'echo ready; read -r x; echo "got-$x"'
EOF
    on_terminal 'expect:$ ' 'send:sh $scratch/script\n' \
        expect:ready 'send:\x1a' expect:Stopped 'expect:$ ' \
        'send:fg\n' expect:script 'send:hello\n' \
        expect:got-hello 'expect:$ ' 'send:exit 0\n' -- \
        bash --norc --noprofile -i
}

control_z_while_waiting() {
    local terminal

    [ -n "$pty" ] || return 200
    hold t || return 1
    on_terminal 'expect:$ ' \
        "send:sh -c 'echo \$\$ >$scratch/front
            exec $simba $verb t -- echo star''ted'\n" \
        'until:guardian_of $(cat $scratch/front)' \
        'send:\x1a' expect:Stopped 'expect:$ ' \
        'send:echo >$scratch/is-stopped; read x\n' \
        'until:[ -e $scratch/is-free ]' 'send:\n' 'expect:$ ' \
        'send:fg\n' expect:started 'expect:$ ' 'send:exit 0\n' -- \
        bash --norc --noprofile -i &
    terminal=$!
    # One that is stopped is not in the queue: another gets the mutex.
    within 20 test -e "$scratch/is-stopped" && let_go && is_free t &&
        : >"$scratch/is-free" && code 0 wait "$terminal"
}

background_job_is_stopped_when_it_reads() {
    on_terminal 'expect:$ ' \
        "send:$simba $verb t -- sh -c 'echo \$\$ >$scratch/reader
            read x; echo go''t-\$x' &\n" \
        'until:is_stopped $(cat $scratch/reader)' \
        'send:\n' expect:Stopped 'expect:$ ' 'send:fg\n' expect:simba \
        'send:hello\n' expect:got-hello 'expect:$ ' 'send:exit 0\n' -- \
        bash --norc --noprofile -i
}

terminal_comes_back_to_a_script() {
    on_terminal expect:ready 'send:hello\n' expect:got-hello -- \
        sh -c '"$simba" "$verb" t -- true; echo ready; read -r x; echo "got-$x"'
}

pipeline_partner_keeps_the_terminal() {
    on_terminal expect:ready 'send:hello\n' expect:got-hello -- \
        sh -c '"$simba" "$verb" t -- sh -c "echo ready; sleep 60" |
            sh -c "read -r a; echo \$a; read -r x </dev/tty; echo got-\$x
                kill \$PPID" ; :' || [ $? -eq 143 ]
}

hangup_ends_everything() {
    on_terminal expect:ready hangup -- "$simba" "$verb" u -- \
        sh -c 'echo $$ >"$0"; echo ready; exec sleep 60' "$scratch/hung"
    [ $? -ne 200 ] || return 200
    within 20 is_gone "$(cat "$scratch/hung")" && within 20 is_free u
}

window_size_reaches_the_command() {
    on_terminal expect:ready size:30x100 expect:winch -- "$simba" "$verb" t -- \
        bash -c 'trap "echo winch; exit" WINCH; echo ready
            while :; do sleep 0.01; done'
}

run_tests
