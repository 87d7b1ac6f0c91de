# Completion of simba(1) for bash: commands, options, mutexes.

# Splits by blanks only: bash itself would also split URLs at their colons.
_simba() {
    local line=${COMP_LINE:0:COMP_POINT} simba helper reply prefix current
    local -a words replies

    read -r -a words <<<"$line"
    [[ $line != *[[:space:]] ]] || words+=('')
    current=${words[-1]}
    simba=$(type -P -- "${words[0]}") || return 0
    helper=${SIMBA_COMPLETE-${simba%/*}/../share/simba/complete.sh}
    COMPREPLY=()
    mapfile -t replies < <(sh "$helper" "$simba" "${words[@]:1}" 2>/dev/null)
    for reply in "${replies[@]}"; do
        case $reply in
        @file)
            compopt -o filenames 2>/dev/null
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY \
                < <(compgen -f -- "$current")
            ;;
        @command)
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY \
                < <(compgen -c -- "$current")
            ;;
        *)
            reply=${reply%%$'\t'*}
            [[ $reply != "$current"* ]] ||
                COMPREPLY+=("$(printf %q "$reply")")
            ;;
        esac
    done
    # More is to come behind a directory.
    [[ ${COMPREPLY[*]} != */ ]] || compopt -o nospace 2>/dev/null
    # What stands before the last colon is typed already, for bash.
    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        prefix=${current%"${current##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    fi
}

complete -F _simba simba
