#!/bin/bash
# The command lines of the README, the documents and the help, from which the
# manual is made, can be run as they stand.
#
#   documents_test.sh SIMBA SCRATCH SOURCE
#
# A line is one of indented code that begins with "simba", or with a target of make
# or a program of the tree. Those of simba are run on a store of
# the test's own in a directory where the scripts that they name exist; what a
# line says of the outcome is other tests' (recipes, readme). Prints TAP.
set -u
source "$(dirname "$0")/lib.sh"
begin documents "$@"
cd "$3" || exit 1
documents=(README.md CONTRIBUTING.md SECURITY.md docs/*.md
    src/backends/*/README.md bindings/python/README.md
    examples/systemd/README.md)

# ── Helpers ──────────────────────────────────────────────────────────────────

# What is not run, as a pattern, and why.
not_run() {
    case $1 in
    'simba tck'*) : 'takes minutes, or is for a store of the reader; cli_tck' ;;
    'simba bench'*) : 'takes minutes; cli_bench' ;;
    *--min-hold*) : 'keeps the mutex for that long; cli_recipes' ;;
    *) return 1 ;;
    esac
}

# What is asked for ends only when it is told to.
is_endless() {
    case $1 in
    *' lead '* | *' every '* | *' watch'* | *' serve'* | *' list -f'*) ;;
    *) return 1 ;;
    esac
}

# lines PATTERN: "file: line" of all that begin so, without what is said of them.
lines() {
    {
        grep -HE "^    $1" "${documents[@]}"
        for command in '' $(commands); do
            # shellcheck disable=SC2086 # '' is no argument
            "$simba" $command --help | sed -n '/^examples:/,$p' |
                grep -E "^ +$1" | sed "s/^/help $command: /"
        done
    } | sed -E -e 's/: +/: /' -e 's/ {2,}#? ?.*//' -e 's/ # .*//' | sort -u
}

# able DIRECTORY LINE: the line as it is run there.
able() {
    local word

    # Files of the reader's machine are here, servers are the store of the test.
    set -- "$1" "$(sed -E -e 's| --store [^ ]+||g' -e 's|/opt/|./|g' \
        -e 's|/(tmp\|var/lib/[a-z_]+\|etc)/|./|g' -e 's|…$|true|' \
        -e 's|--token [0-9]+…?|--token 17|' -e 's| \&\& exec .*||' \
        -e 's|alert|true|' -e 's|--listen [^ ]+||' \
        -e 's|^simba serve|& --listen 127.0.0.1:0|' <<<"$2")"
    for word in $2; do
        word=${word//[\'\"]/}
        case $word in
        ./*.jsonl | ./*.prom) ;;
        ./*) printf '#!/bin/sh\n' >"$1/${word#./}" && chmod +x "$1/${word#./}" ;;
        esac
    done
    echo "$2"
}

# ── Lines ────────────────────────────────────────────────────────────────────

each_line_of_simba_runs() {
    local dir=$scratch/run place line able got bad=0 ran=0 limit

    mkdir -p "$dir/bin" && ln -s "$simba" "$dir/bin/simba" || return 1
    (cd "$dir" && "$simba" --json lock n -- true 2>run.jsonl &&
        cp run.jsonl nightly.jsonl && "$simba" --json lock m -- true 2>lock-1.jsonl)
    while IFS= read -r line; do
        place=${line%%: *} line=${line#*: }
        not_run "$line" && continue
        able=$(able "$dir" "$line")
        limit=30
        is_endless "$able" && limit=2
        (cd "$dir" && PATH=$dir/bin:$PATH timeout -k 10 "$limit" \
            bash -c "$able") >"$scratch/out" 2>&1 </dev/null
        got=$?
        ran=$((ran + 1))
        case $got in
        0 | 75 | 76 | 143) ;;       # 76: of break, that tenure is over
        1) [[ $able == *doctor* || $able == *held* ]] || bad=1 ;;
        124) [ "$limit" -eq 2 ] || bad=1 ;;
        *) bad=1 ;;
        esac
        [ "$bad" -eq 0 ] && continue
        echo "# $place: $line: $got"
        sed 's/^/#   /' "$scratch/out"
        return 1
    done < <(lines '([A-Z_]+=[^ ]+ )?simba ')
    [ "$ran" -ge 30 ] || { echo "# only $ran lines" && return 1; }
}

# They take minutes to hours, or need root: that they are there is all.
each_target_and_script_is_there() {
    local line bad=0 count=0

    while IFS= read -r line; do
        line=${line#*: }
        count=$((count + 1))
        set -- $line
        case $1 in
        make) grep -qE "^$2:" Makefile ;;
        build/*) grep -rqE "\\b(${1##*/}|with_redis)\\b" --include=CMakeLists.txt \
            --include=*.cmake . ;;
        *) [ -x "$1" ] ;;
        esac || { echo "# $line" && bad=1; }
    done < <(lines '(make|scripts/[a-z]+|build/[a-z/_-]+) ')
    [ "$bad" -eq 0 ] && [ "$count" -ge 20 ]
}

run_tests
