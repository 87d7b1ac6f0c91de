# A page from a document of ours: see scripts/man.
#
#   awk -v name=… -v section=… -v summary=… -v also=… -v version=… -v date=… \
#       -f man_markdown.awk FILE…
#
# It knows as much of Markdown as our documents use: headings, paragraphs, lists,
# code that is indented or fenced, tables. The title and what follows it up to the
# first heading is the DESCRIPTION. A row of a table is a term and what it means.

function escape(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return (text ~ /^[.\047]/ ? "\\&" : "") text
}

# Links become their text, code becomes bold, and so does what is strong.
function prose(text,    code) {
    gsub(/\\\|/, "|", text)
    gsub(/\\/, "\\e", text)
    while (match(text, /\[[^]]+\]\([^)]*\)/)) {
        code = substr(text, RSTART + 1)
        sub(/\].*/, "", code)
        text = substr(text, 1, RSTART - 1) code substr(text, RSTART + RLENGTH)
    }
    while (match(text, /`[^`]+`/)) {
        code = substr(text, RSTART + 1, RLENGTH - 2)
        gsub(/-/, "\\-", code)
        text = substr(text, 1, RSTART - 1) "\\fB" code "\\fR" \
            substr(text, RSTART + RLENGTH)
    }
    while (match(text, /\*\*[^*]+\*\*/))
        text = substr(text, 1, RSTART - 1) "\\fB" \
            substr(text, RSTART + 2, RLENGTH - 4) "\\fR" \
            substr(text, RSTART + RLENGTH)
    return (text ~ /^[.\047]/ ? "\\&" : "") text
}

# A paragraph is gathered, so that code and links may be broken over lines.
function flush() {
    if (text != "")
        print prose(text)
    text = ""
}

function end_block() {
    flush()
    if (block == "code")
        print ".RE\n.fi"
    block = ""
}

# Nothing parts a heading from what follows it.
function paragraph() {
    if (!is_fresh)
        print ".PP"
    is_fresh = 0
}

function heading(macro, text) {
    end_block()
    print macro " " prose(text)
    is_fresh = 1
    was_blank = 0
}

function begin_code() {
    end_block()
    paragraph()
    print ".nf\n.RS 4"
    block = "code"
}

function row(line,    n, cells, i, rest) {
    gsub(/\\\|/, "\001", line)
    sub(/^ *\| */, "", line)
    sub(/ *\| *$/, "", line)
    n = split(line, cells, / *\| */)
    for (i = 2; i <= n; i++)
        rest = rest (i > 2 && cells[i] != "" ? "; " : "") cells[i]
    gsub(/\001/, "|", cells[1])
    gsub(/\001/, "|", rest)
    gsub(/[`*]/, "", cells[1])
    print ".TP\n.B " (cells[1] == "" ? "\\ " : escape(cells[1]))
    print rest == "" ? "\\&" : prose(rest)
}

BEGIN {
    print ".\\\" Made by scripts/man from the project's documents."
    printf ".TH %s %s %s \"%s\" \"%s\"\n", toupper(name), section, date,
        version, (section == 5 ? "File Formats" : "Miscellaneous")
    print ".SH NAME\n" name " \\- " summary "\n.SH DESCRIPTION"
    is_fresh = 1
}
/^```/ {
    if (fenced)
        end_block()
    else
        begin_code()
    fenced = !fenced
    next
}
fenced { print escape($0); next }
/^# / {
    end_block()
    if (seen++)
        heading(".SH", toupper(substr($0, 3)))
    next
}
/^## / { heading(".SH", toupper(substr($0, 4))); next }
/^###+ / { sub(/^#+ /, ""); heading(".SS", $0); next }
/^ *$/ {
    flush()
    was_blank = 1
    next
}
/^    / && block != "item" {
    if (block != "code")
        begin_code()
    else if (was_blank)
        print ""
    was_blank = 0
    print escape(substr($0, 5))
    next
}
/^\|/ {
    if (block != "table") {
        end_block()
        block = "table"
        rows = is_fresh = 0
    }
    if (rows++ > 0 && $0 !~ /^\|[-| :]+$/)
        row($0)
    was_blank = 0
    next
}
/^(\*|[0-9]+\.) / {
    end_block()
    block = "item"
    indent = /^\*/ ? 2 : 4
    print ".IP " (indent == 2 ? "\\(bu" : $1) " " indent
    sub(/^[^ ]+ +/, "")
    text = $0
    was_blank = is_fresh = 0
    next
}
block == "item" && /^  / {
    if (was_blank) {
        flush()
        print ".IP \"\" " indent
    }
    sub(/^ +/, "")
    text = text (text == "" ? "" : " ") $0
    was_blank = 0
    next
}
{
    if (text == "") {
        end_block()
        paragraph()
    }
    text = text (text == "" ? "" : " ") $0
    was_blank = 0
}
END {
    end_block()
    print ".SH SEE ALSO"
    n = split(also, pages, " ")
    for (i = 1; i <= n; i++) {
        split(pages[i], part, "(")
        print ".BR " part[1] " (" part[2] (i < n ? "," : "")
    }
}
