#!/bin/sh
# What can stand next on a command line of simba(1); the completions of bash,
# zsh and fish ask it.
#
#   complete.sh SIMBA WORD...
#
# The words are those behind "simba" up to the cursor; the last one is being
# typed, and may be empty. Prints one candidate a line, with a tab and what it
# is behind it where that is known; "@file" and "@command" ask the shell for its
# own. Commands, options and words are read from what --help says, so there is
# nothing to keep in step. Never prints an error, and asks a store for one
# second at most ($SIMBA_COMPLETE_SECONDS).
export LC_ALL=C

simba=$1
shift
command='' store='' place=0 awaits='' is_closed=''

# What programs of others do with --help is not known: they get files.
leave_unless_ours() {
    [ "$command" != help ] || return 0
    case $("$simba" --help </dev/null 2>/dev/null |
        sed -nE -e '/^others /c\
others' -e "s/^  $command( .*)?\$/found/p") in
    found*) ;;
    *found) echo @file && exit 0 ;;
    *) exit 0 ;;
    esac
}

# The help of the command there is, or of simba itself.
help() {
    # shellcheck disable=SC2086 # no word when there is no command
    "$simba" $command --help </dev/null 2>/dev/null
}

# takes_value OPTION: the help names what it takes in capitals or in quotes.
takes_value() {
    help | grep -qE -e "(^|[ ,])$1 [A-Z']"
}

while [ $# -gt 1 ]; do
    if [ -n "$awaits" ]; then
        [ "$awaits" != --store ] || store=$1
        awaits=''
    elif [ -n "$is_closed" ]; then
        place=$((place + 1))
    else
        case $1 in
        --) is_closed=yes ;;
        --store=*) store=${1#--store=} ;;
        -*=*) ;;
        -*) ! takes_value "$1" || awaits=$1 ;;
        *)
            if [ -z "$command" ]; then
                case $1 in *[!a-zA-Z0-9_-]*) exit 0 ;; esac
                command=$1
                leave_unless_ours
            else
                place=$((place + 1))
            fi
            ;;
        esac
    fi
    shift
done

# Each long option, and each short one, with the words behind it.
options() {
    # What a long one does stands on the next line.
    help | sed -nE -e "/^ +(-[A-Za-z], )?--[a-z-]+( [A-Z]+| '[^']*')?\$/{
            N
            s/\n +/  /
        }" \
        -e '/^ +--store URL, /{
            s/.*/--store\twhere mutexes live\n--json\tobjects for programs/p
            s/.*/--verbose\ttell more\n--quiet\ttell less\n--help\ttell this/p
            d
        }' \
        -e "s/^ +(-[A-Za-z]), (--[a-z-]+)( [A-Z][^ ]*| '[^']*')?( +(.*))?\$/\1\t\5\\
\2\t\5/p" \
        -e "s/^ +(-[-A-Za-z]+)( [A-Z][^ ]*| '[^']*')?( +([^-].*))?\$/\1\t\4/p" |
        sed -e 's/[[:space:]]*$//' | sort -u -t '	' -k 1,1
}

commands() {
    "$simba" --help </dev/null 2>/dev/null |
        sed -nE -e 's/^  ([a-zA-Z0-9][a-zA-Z0-9_-]*)( [^ ]+)*(  +([^ ].*))?$/\1\t\4/p'
}

# What the usage line has at the place of the word: NAME, FILE, ... The last
# one that may be repeated stands for all that follow.
kind_of_word() {
    help | sed -n -e '1s/…/*/g' -e '1s/^usage: simba [a-z]* *//p' |
        sed -E -e 's/-[-a-z]+ [A-Z]+//g' -e 's/\[(OPTION\*?|-[^]]*)\]//g' \
            -e 's/[][]//g' |
        tr -s ' ' '\n' | grep . | awk -v place="$place" '
            NR == place + 1 { found = $0 }
            { last = $0 }
            END {
                if (found == "" && last ~ /\*$/) found = last
                sub(/\*$/, "", found)
                print found
            }'
}

names() {
    timeout "${SIMBA_COMPLETE_SECONDS-1}" \
        "$simba" ${store:+--store "$store"} -q list </dev/null 2>/dev/null
}

word() {
    case $(kind_of_word) in
    NAME) names ;;
    GLOB)
        if [ "$command" = list ]; then
            names
        else
            "$simba" "$command" --list </dev/null 2>/dev/null |
                sed -nE 's/^([a-z_.]+)( .*|$)/\1/p'
        fi
        ;;
    SCENARIO) help | sed -nE 's/^  ([a-z]+)  +([^ ].*)$/\1\t\2/p' ;;
    FILE | ARG) echo @file ;;
    CMD) echo @command ;;
    esac
}

# The words that an option takes, from what the program says to one that is
# none of them.
values() {
    "$simba" "$command" "$awaits" '' </dev/null 2>&1 |
        sed -n 's/.* is none of its values: write //p' | tr -s ', ' '\n\n' |
        grep -v '^or$'
}

# url_of_file BEFORE PATH: files whose path begins so, behind what is before.
url_of_file() {
    for found in "$2"*; do
        if [ -d "$found" ]; then
            printf '%s\n' "$1$found/"
        elif [ -e "$found" ]; then
            printf '%s\n' "$1$found"
        fi
    done
}

value() {
    case $awaits=${1-} in
    --store=sqlite:*) url_of_file sqlite: "${1#sqlite:}" ;;
    *)
        if help | grep -qE -e "(^|[ ,])$awaits FILE"; then
            echo @file
        elif help | grep -qE -e "(^|[ ,])$awaits WHEN"; then
            values
        fi
        ;;
    esac
}

if [ -n "$awaits" ]; then
    value "${1-}"
elif [ -z "$is_closed" ] && [ "${1#--store=sqlite:}" != "${1-}" ]; then
    url_of_file --store=sqlite: "${1#--store=sqlite:}"
elif [ -z "$is_closed" ] && [ "${1#-}" != "${1-}" ]; then
    options
elif [ -z "$command" ] || [ "$command $place" = "help 0" ]; then
    commands
else
    word
fi
exit 0
