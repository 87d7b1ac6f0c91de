# A page of section 1 from the text of --help: see scripts/man.
#
# Paragraphs are parted by empty lines. One that is indented is a list: a term,
# two blanks or more, and what it means, which goes on where a line is indented
# further. "exit codes:", "example:", "environment:" and "files:" begin paragraphs
# of their own sections.

function escape(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return text
}

# In prose a hyphen stays one, but an option must be fit to be copied.
function prose(text) {
    gsub(/\\/, "\\e", text)
    text = " " text
    while (match(text, /[^A-Za-z0-9\\]-[-A-Za-z]/))
        text = substr(text, 1, RSTART) "\\-" substr(text, RSTART + 2)
    while (match(text, /\\--/))
        text = substr(text, 1, RSTART) "-\\-" substr(text, RSTART + 3)
    text = substr(text, 2)
    return text ~ /^[.\047]/ ? "\\&" text : text
}

function section(title) {
    if (title != current)
        print ".SH " title
    current = title
}

function synopsis(    i, line) {
    section("SYNOPSIS")
    for (i = 1; i <= count; i++) {
        line = lines[i]
        sub(/^usage: /, "", line)
        sub(/^ +/, "", line)
        print (i > 1 ? ".br\n" : "") ".B " escape(line)
    }
}

function exits(    i, text, n, items) {
    section("EXIT STATUS")
    for (i = 1; i <= count; i++)
        text = text (i > 1 ? " " : "") lines[i]
    sub(/^exit codes: */, "", text)
    n = split(text, items, /; */)
    for (i = 1; i <= n; i++) {
        print ".IP \\(bu 2"
        print prose(items[i])
    }
}

function examples(    i, line) {
    section("EXAMPLES")
    print ".nf"
    for (i = 2; i <= count; i++) {
        line = lines[i]
        sub(/^    /, "", line)
        print (line ~ /^[.\047]/ ? "\\&" : "") escape(line)
    }
    print ".fi"
}

# A line that begins a term: it is indented no more than the first one, or is
# an option, whose long form may stand alone.
function is_term(line) {
    match(line, /^ */)
    return RLENGTH < column
}

function list(    i, line, at, term, text) {
    if (lines[1] ~ /^ *-/ || lines[2] ~ /^ *--/)
        section("OPTIONS")
    else if (current == "SYNOPSIS" || \
             (current == "DESCRIPTION" && name == "simba"))
        section("COMMANDS")
    column = 1000
    for (i = 1; i <= count; i++)
        if (match(lines[i], /^ *[^ ].*[^ ]  +[^ ]/) || \
            match(lines[i], /^          +/)) {
            line = lines[i]
            if (match(line, /^          +/))
                at = RLENGTH
            else {
                match(line, /[^ ]  +[^ ]/)
                at = RSTART + RLENGTH - 2
            }
            if (at < column)
                column = at
        }
    for (i = 1; i <= count; i++) {
        line = lines[i]
        if (!is_term(line)) {
            sub(/^ +/, "", line)
            print prose(line)
            continue
        }
        sub(/^ +/, "", line)
        text = ""
        term = line
        if (match(line, /  +/) || match(line, /^-[^ ]+ [A-Z] /)) {
            term = substr(line, 1, RSTART + RLENGTH - 1)
            text = substr(line, RSTART + RLENGTH)
            sub(/ +$/, "", term)
        }
        print ".TP"
        print ".B " escape(term)
        if (text != "")
            print prose(text)
    }
}

# A list below its title, which stands alone on the first line.
function titled(    i) {
    section(toupper(substr(lines[1], 1, length(lines[1]) - 1)))
    for (i = 1; i < count; i++)
        lines[i] = lines[i + 1]
    count--
    list()
}

# The parameters of a store below its URL.
function store(    i) {
    section("STORES")
    print ".SS " escape(lines[1])
    for (i = 1; i < count; i++)
        lines[i] = lines[i + 1]
    count--
    list()
}

function paragraph(    i) {
    if (count == 0)
        return
    if (lines[1] ~ /^usage:/)
        synopsis()
    else if (lines[1] ~ /^exit codes:/)
        exits()
    else if (lines[1] ~ /^examples?:/)
        examples()
    else if (lines[1] ~ /^(environment|files):$/)
        titled()
    else if (lines[1] ~ /^[a-z]+:[^ ]+$/)
        store()
    else if (lines[1] ~ /^ /)
        list()
    else {
        if (current == "OPTIONS")
            section("NOTES")
        else if (current != "NOTES" && current != "DESCRIPTION")
            section("DESCRIPTION")
        else
            print ".PP"
        for (i = 1; i <= count; i++)
            print prose(lines[i])
    }
    count = 0
}

BEGIN {
    print ".\\\" Made by scripts/man from the program's own --help."
    printf ".TH %s 1 %s \"%s\" \"User Commands\"\n", toupper(name), date, version
    print ".SH NAME"
    print name " \\- " prose(summary)
}
/^$/ { paragraph(); next }
{ lines[++count] = $0 }
END {
    paragraph()
    print ".SH SEE ALSO"
    gsub(/-/, "\\-", also)
    n = split(also, pages, /, */)
    for (i = 1; i <= n; i++) {
        split(pages[i], part, /[()]/)
        printf ".BR %s (%s)%s\n", part[1], part[2], i < n ? "," : ""
    }
}
