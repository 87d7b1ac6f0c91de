#!/bin/bash
# The command lines of the README, the documents, the help and the manual can be
# run as they stand.
#
#   documents_test.sh SIMBA SCRATCH SOURCE
#
# A line is one of indented code that begins with a program, an entry of crontab or
# of a Containerfile, or a command within a sentence. They are run on a
# store of the test's own, in a directory where the scripts that they name exist,
# and for shorter than they say; what a line says of the outcome is other tests'
# (recipes, readme). Forms, with names in CAPITALS or "…" for what the reader puts
# there, are no lines. Those that are not run stand in the list below, with the
# test that runs them or the reason why none does, and are told. Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin documents "$@"
cd "$3" || exit 1
build=${simba%/cli/simba}
documents=(README.md CONTRIBUTING.md SECURITY.md docs/*.md
    src/backends/*/README.md bindings/python/README.md
    examples/systemd/README.md .github/ISSUE_TEMPLATE/*.md)

# pattern|test that runs it, "-" for none|why it is not run here
not_run=(
    'apt install *|tests/package/root_test.sh|in a root of its own'
    'cc program.c *|tests/package/root_test.sh|in a root of its own'
    'cc -std=c11 *|tests/package/build_backend.sh|against what is installed'
    'export SIMBA_MODULE_PATH=*|tests/package/build_backend.sh|the same'
    '*pip install *|tests/python/pip_test.sh|against what is installed'
    'python3 -m venv *|tests/python/pip_test.sh|the same'
    'systemctl *|tests/cli/systemd_running_test.sh|needs a systemd of its own'
    'psql *|tests/cli/blocks_test.sh|needs a server'
    'etcdctl txn *|tests/cli/blocks_test.sh|needs a server'
    'etcdctl role *|tests/fixtures/with_etcd|needs a server'
    'etcdctl compact *|tests/cli/blocks_test.sh|needs a server'
    'etcdctl endpoint *|tests/cli/blocks_test.sh|the same'
    'etcdctl put *|tests/cli/blocks_test.sh|the same'
    'etcdctl alarm disarm|tests/cli/blocks_test.sh|the same'
    'etcdctl del a|tests/cli/blocks_test.sh|the same'
    'etcdctl get x|tests/cli/blocks_test.sh|the same'
    'curl -d *|tests/cli/blocks_test.sh|the same'
    'sleep 1; kill *|tests/cli/blocks_test.sh|the same'
    'etcdctl lock *|tests/cli/blocks_test.sh|the same'
    'etcdctl elect *|tests/cli/blocks_test.sh|the same'
    'sqlite3 *|tests/cli/documents_test.sh|backup_of_sqlite_is_a_store, below'
    'make demo|tests/examples/CMakeLists.txt|builds; scripts/demo is run there'
    'make install|tests/package/dist_test.sh|builds'
    'make deb|tests/package/root_test.sh|builds'
    'make test|.ci/run|runs this test'
    'make check|-|is a part of make test'
    'make lint|.ci/run|reads all sources'
    'make format|-|writes into the tree; make lint has scripts/format --check'
    'make test-more|-|takes an hour'
    'make coverage|-|builds, for minutes'
    'make seeds|-|takes hours; sim_seeds is a short form'
    'make fuzz*|-|takes an hour; the targets are tests with few runs'
    '*make faults*|-|takes from minutes to an hour; faults_quick is a short form'
    '*make interop|-|needs Maven Central; make test-more has players of ours'
    'scripts/speed *|-|takes minutes, and writes docs/speed.md'
    'scripts/scale *|-|takes minutes, on servers of its own'
    'scripts/fuzz *|-|builds, and takes ten minutes'
    'scripts/abi *|tests/package/abi_test.sh|of all headers'
    '*tests/tck/tck_broken|tests/tck/CMakeLists.txt|takes ten seconds'
    '*sim_planted --plants|tests/sim/CMakeLists.txt|takes half a minute'
)

# ── Helpers: lines ───────────────────────────────────────────────────────────

# "file: line" of the indented code, and of what within sentences begins with a
# program and has arguments.
lines_of_documents() {
    awk '
    # With a gap for the reader, or a command that lacks what it must be given.
    function is_form(text) {
        return text ~ /(^|[ =|\[])[A-Z]+([.: |\]]|$)/ || text ~ /…/ ||
            text ~ /^simba (--store .*|-v)$/ ||
            text ~ ("^simba (--json )?(lock|lead|every|show|watch|held|break|" \
                "hand-over|verify|bench|tck)( -[^ ]*)?$") ||
            text ~ /^etcdctl (del|snapshot save|lock)$/
    }
    FNR == 1 { fence = 0; sentence = "" }
    /^```/ { fence = !fence }
    fence { next }
    /^    [^ ]/ { print FILENAME ": " substr($0, 5); next }
    /^$/ { sentence = ""; next }
    {
        sentence = sentence " " $0
        while (match(sentence, /`[^`]+`/)) {
            text = substr(sentence, RSTART + 1, RLENGTH - 2)
            sentence = substr(sentence, RSTART + RLENGTH)
            if (text ~ ("^((simba|make|etcdctl|sqlite3|scripts/[a-z]+) |" \
                "([A-Z_]+=[^ ]+ )+make )") && !is_form(text))
                print FILENAME ": " text
        }
    }' "${documents[@]}"
}

lines_of_help() {
    local command

    for command in '' $(commands); do
        # shellcheck disable=SC2086 # '' is no argument
        "$simba" $command --help | sed -n '/^examples:/,$p' |
            sed -nE "s/^    +([^ #])/help $command: \1/p"
    done
}

# is_program WORD: it stands for one in a line.
is_program() {
    case $1 in
    simba | make | apt | cc | pip | psql | etcdctl | systemctl | export | \
        curl | sqlite3 | */pip | build/?*/* | scripts/?*) ;;
    *) [ "$(type -t "$1")" = file ] ;;
    esac
}

# "file: line" of all, without what is said of them, entries of crontab and of a
# Containerfile as commands.
lines() {
    local place line word

    { lines_of_documents && lines_of_help; } |
        sed -E -e 's/: ENTRYPOINT \[(.*)\]$/: \1/;t entry' -e b -e ': entry' \
            -e 's/", "/ /g; s/"//g' |
        sed -E -e 's/: [0-9]+ [0-9]+ \* \* \*  /: /' -e 's/ {2,}#? ?.*//' \
            -e 's/ # .*//' -e 's/ \\$//' | sort -u |
        while IFS= read -r line; do
            place=${line%%: *} line=${line#*: }
            [[ ! $line =~ \ [A-Z]+$ ]] || continue # a form
            for word in $line; do
                [[ $word =~ ^[A-Z_]+=. ]] || break
            done
            is_program "$word" && echo "$place: $line"
        done
}

# ── Helpers: running them ────────────────────────────────────────────────────

# What is asked for ends only when it is told to.
is_endless() {
    case $1 in
    *' lead '* | *' every '* | *' watch'* | *' serve'* | *' list -f'*) ;;
    *) return 1 ;;
    esac
}

# able DIRECTORY LINE: the line as it is run there: for a shorter time, with files
# of the reader's machine here, and with the store of the test for servers.
able() {
    local word

    set -- "$1" "$(sed -E \
        -e '/ tck /s/--store (fault:[^:]*:)?[^ ]+/--store \1memory:x/' \
        -e 's/ tck --store ([^ ]+)$/ tck --quick --store \1/' \
        -e '/ tck /!s/ --store [^ ]+//g' \
        -e 's/bench (pair|handoff|successor|throughput).*/& -n 5/' \
        -e 's/bench (idle|start|waiters)$/& --contenders 1000/' \
        -e 's/--contenders 1000.*/--contenders 5 --seconds 1/' \
        -e 's/bench report .*/& --contenders 2 --seconds 1/' \
        -e 's/(tck_seeds [^ ]+ 1) 200/\1 3/' -e 's/--seeds 20000/--seeds 20/' \
        -e 's/exhaust 9/exhaust 3/' -e 's/census 1000/census 10/' \
        -e 's/--min-hold [0-9a-z]+/--min-hold 1s/' \
        -e "s/ -g jobs / -g $(id -gn) /" -e 's|/var/lib/simba|./simba|g' \
        -e 's#/(opt|tmp|etc|var/lib/[a-z_]+)/#./#g' -e 's/…$/true/' \
        -e 's/ cmd$/ true/' -e 's/--token [0-9]+…?/--token 17/' \
        -e 's/ && exec .*//' -e 's/alert/true/' -e 's/--listen [^ ]+//' \
        -e 's/^simba serve/& --listen 127.0.0.1:0/' \
        -e "s#^make help#make -s -C '$PWD' help#" \
        -e "s#^([A-Z_]+=[^ ]+ )*build/[a-z]+/#$build/#" <<<"$2")"
    for word in $2; do
        word=${word//[\'\"]/}
        case $word in
        ./*.jsonl | ./*.prom | ./simba | ./*/*) ;;
        ./*) printf '#!/bin/sh\n' >"$1/${word#./}" && chmod +x "$1/${word#./}" ;;
        esac
    done
    echo "$2"
}

# runs DIRECTORY LINE: it ends as lines do that are understood.
runs() {
    local able limit=60 got

    able=$(able "$1" "$2")
    is_endless "$able" && limit=2
    (cd "$1" && PATH=$1/bin:$PATH SIMBA_MODULE_PATH=$build \
        timeout -k 10 "$limit" bash -c "$able") >"$scratch/out" 2>&1 </dev/null
    got=$?
    case $got in
    0 | 143) return ;;
    75 | 76) [[ $able == *simba* ]] && return ;; # 76: of break: that tenure is over
    1) [[ $able == *doctor* || $able == *held* ]] && return ;;
    124) [ "$limit" -eq 2 ] && return ;;
    esac
    echo "# $2: $got, run as: $able"
    sed 's/^/#   /' "$scratch/out"
    return 1
}

# listed LINE: the entry for it.
listed() {
    local entry

    for entry in "${not_run[@]}"; do
        # shellcheck disable=SC2254 # a pattern
        case $1 in
        ${entry%%|*}) echo "$entry" && return ;;
        esac
    done
    return 1
}

# ── Lines ────────────────────────────────────────────────────────────────────

each_line_runs_or_is_listed() {
    local dir=$scratch/run place line entry ran=0 bad=0

    mkdir -p "$dir/bin" && ln -s "$simba" "$dir/bin/simba" || return 1
    (cd "$dir" && "$simba" --json lock n -- true 2>run.jsonl &&
        cp run.jsonl nightly.jsonl && "$simba" --json lock m -- true 2>lock-1.jsonl)
    lines >"$scratch/lines"
    while IFS= read -r line; do
        place=${line%%: *} line=${line#*: }
        if entry=$(listed "$line"); then
            echo "# not run here: $place: $line: ${entry#*|}" >&2
            continue
        fi
        ran=$((ran + 1))
        runs "$dir" "$line" || { echo "# of $place" && bad=1; }
    done <"$scratch/lines"
    echo "# $ran lines were run" >&2
    [ "$bad" -eq 0 ] && [ "$ran" -ge 70 ]
}

# While it is used, as operations.md has it: what was owned is in the copy.
backup_of_sqlite_is_a_store() {
    local line dir=$scratch/backup pid rc

    command -v sqlite3 >/dev/null || return 200
    line=$(sed -nE 's/^[^:]*: (sqlite3 .*)/\1/p' "$scratch/lines")
    mkdir "$dir" && cd "$dir" || return 1
    (
        export SIMBA_STORE=sqlite:$dir/simba.db
        "$simba" lock backed-up -- sleep 60 &
        pid=$!
        within 20 "$simba" held backed-up && bash -c "$line" &&
            "$simba" --store "sqlite:$dir/copy.db" held backed-up &&
            "$simba" --store "sqlite:$dir/copy.db" lock another -- true
        rc=$?
        kill "$pid" && wait "$pid"
        return "$rc"
    )
    rc=$?
    cd - >/dev/null && return "$rc"
}

# Nor does the list excuse what nobody writes, or name a test that is not there.
list_is_true() {
    local entry test bad=0

    for entry in "${not_run[@]}"; do
        test=${entry#*|} test=${test%%|*}
        [ "$test" = - ] || [ -e "$test" ] || { echo "# no $test" && bad=1; }
        while IFS= read -r line; do
            # shellcheck disable=SC2254 # a pattern
            case ${line#*: } in
            ${entry%%|*}) continue 2 ;;
            esac
        done <"$scratch/lines"
        echo "# no line is ${entry%%|*}" && bad=1
    done
    return "$bad"
}

# What is not run by make is at least understood by it.
each_target_is_there() {
    local line count=0 bad=0

    while IFS= read -r line; do
        count=$((count + 1))
        bash -c "${line/make /make -n }" >"$scratch/out" 2>&1 ||
            { echo "# $line" && bad=1; }
    done < <(sed -nE 's/^[^:]*: (([A-Z_]+=[^ ]+ )*make )/\1/p' "$scratch/lines" |
        sort -u)
    [ "$bad" -eq 0 ] && [ "$count" -ge 15 ]
}

# The manual is made from help and documents: no line of it is only there.
manual_has_no_lines_of_its_own() {
    local line bad=0

    [ -e "$build/man/simba.1" ] || return 200
    sed -E 's/^[^:]*: //' "$scratch/lines" >"$scratch/known"
    while IFS= read -r line; do
        is_program "${line%% *}" || continue
        grep -qxF -- "$line" "$scratch/known" || { echo "# $line" && bad=1; }
    done < <(awk '/^\.(EX|nf)/ { on = 1; next } /^\.(EE|fi)/ { on = 0 }
        on && !/^\./ { gsub(/\\-/, "-"); sub(/^ +/, ""); print }' \
        "$build"/man/simba*.[157] | sed -E 's/ {2,}#? ?.*//')
    return "$bad"
}

run_tests
