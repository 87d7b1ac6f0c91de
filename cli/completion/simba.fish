# Completion of simba(1) for fish: commands, options, mutexes.

function __simba_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l simba (command -s -- $words[1]); or return
    set -l helper (dirname $simba)/../share/simba/complete.sh
    set -q SIMBA_COMPLETE; and set helper $SIMBA_COMPLETE
    for line in (sh $helper $simba $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case @file
                complete -C "'' $current"
            case @command
                complete -C "$current"
            case '*'
                echo $line
        end
    end
end

complete -c simba -f -a '(__simba_complete)'
