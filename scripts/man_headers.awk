# libsimba(3), and a page for each function, from the public headers: see
# scripts/man.
#
# A header's first comment says what it is for. After that a comment that begins
# with two stars belongs to the declaration below it: of a function the
# prototype is the synopsis, and its @param and @return lines become a list;
# structures, enums and macros are shown as they stand. A function's page shows
# those of its header that its prototype names. Headers below simba/sys/ are for
# authors of stores: their functions have pages, libsimba(3) leaves them out.
#
#   awk -v version=… -v date=… -v dir=… -f man_headers.awk HEADER… >libsimba.3

function escape(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return (text ~ /^[.\047]/ ? "\\&" : "") text
}

# Code between grave accents is bold, where both stand in one line.
function prose(text) {
    gsub(/\\/, "\\e", text)
    while (match(text, /`[^`]+`/))
        text = substr(text, 1, RSTART - 1) "\\fB" \
            substr(text, RSTART + 1, RLENGTH - 2) "\\fR" \
            substr(text, RSTART + RLENGTH)
    gsub(/\*\*/, "", text)
    return (text ~ /^[.\047]/ ? "\\&" : "") text
}

# The text of a comment: prose, code where it is indented, and lists.
function tell(comment,    n, i, lines, line, in_code, word) {
    n = split(comment, lines, "\n")
    for (i = 1; i <= n; i++) {
        line = lines[i]
        if (line ~ /^    / && !in_param) {
            if (!in_code)
                print ".PP\n.nf\n.RS 4" > to
            in_code = 1
            print escape(substr(line, 5)) > to
            continue
        }
        if (in_code) {
            print ".RE\n.fi" > to
            in_code = 0
        }
        sub(/^ +/, "", line)
        if (line == "") {
            if (i < n && lines[i + 1] !~ /^@/ && lines[i + 1] !~ /^    /)
                print (in_param ? ".RE\n.PP" : ".PP") > to
            in_param = 0
        } else if (line ~ /^@param/) {
            sub(/^@param(\[[a-z,]*\])? */, "", line)
            word = line
            sub(/ .*/, "", word)
            sub(/^[^ ]* */, "", line)
            print (in_param ? "" : ".RS 4\n") ".TP\n.I " escape(word) > to
            in_param = 1
            if (line != "")
                print prose(line) > to
        } else if (line ~ /^@return/) {
            sub(/^@return */, "", line)
            print (in_param ? "" : ".RS 4\n") ".TP\n.B returns" > to
            in_param = 1
            print prose(line) > to
        } else
            print prose(line) > to
    }
    if (in_code)
        print ".RE\n.fi" > to
    if (in_param)
        print ".RE" > to
    in_param = 0
}

function heading(text) {
    gsub(/SIMBA_API |SIMBA_MUST_USE /, "", text)
    gsub(/[ \n]+/, " ", text)
    sub(/^ /, "", text)
    sub(/;.*$/, "", text)
    sub(/ \{.*$/, "", text)
    sub(/^static inline /, "", text)
    sub(/ *__attribute__.*$/, "", text)
    gsub(/\( /, "(", text)
    return text
}

# The first sentence of a comment, as the name of a page wants it.
function summary_of(comment,    text, first) {
    text = comment
    sub(/\n *\n.*/, "", text)
    sub(/(^|\n)@.*/, "", text)
    gsub(/[ \n]+/, " ", text)
    if (match(text, /[.:;?] /))
        text = substr(text, 1, RSTART)
    sub(/ *Threads: .*/, "", text)
    if (length(text) > 50)
        sub(/, .*/, "", text)
    sub(/[.:;] *$/, "", text)
    gsub(/[`*]/, "", text)
    first = substr(text, 1, 2)
    if (first ~ /^[A-Z][a-z ]/)
        text = tolower(substr(text, 1, 1)) substr(text, 2)
    return text
}

# One prototype, a parameter a line.
function show_prototype(    text) {
    text = escape(heading(code))
    gsub(/, /, ",\n    ", text)
    print ".nf\n.B #include <" FILENAME ">\n" > to
    print "\\fB" text ";\\fR\n.fi" > to
}

function begin_page(name, summary) {
    print ".\\\" Made by scripts/man from the public headers." > to
    printf ".TH %s 3 %s \"%s\" \"Library Functions\"\n", toupper(name), date,
        version > to
    print ".SH NAME\n" name " \\- " prose(summary) > to
}

function show_function(    name, i, summary) {
    name = heading(code)
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    summary = summary_of(comment == "" ? about : comment)
    if (!is_sys)
        list = list ".TP\n.BR " name " (3)\n" prose(summary) "\n"
    to = dir "/" name ".3"
    begin_page(name, summary)
    print ".SH SYNOPSIS" > to
    show_prototype()
    print ".SH DESCRIPTION" > to
    if (comment == "")
        print prose("See the comments of " FILENAME ".") > to
    tell(comment)
    for (i = 1; i <= type_count; i++)
        if (code ~ "[^a-z_]" types[i] "[^a-z_]") {
            print ".SS " types[i] "\n.nf\n.RS 4" > to
            print bodies[i] ".RE\n.fi" > to
        }
    print ".SH SEE ALSO\n.BR libsimba (3)" > to
    close(to)
    to = main
}

function flush_list() {
    if (list != "")
        print ".SS Functions\n" list > to
    list = ""
}

function verbatim(    n, i, lines, text) {
    n = split(code, lines, "\n")
    for (i = 1; i <= n; i++)
        text = text escape(lines[i]) "\n"
    return text
}

function show_verbatim() {
    if (is_sys)
        return
    if (comment != "") {
        print ".PP" > to
        tell(comment)
    }
    print ".PP\n.nf\n.RS 4\n" verbatim() ".RE\n.fi" > to
}

function end_code() {
    if (code ~ /SIMBA_API/)
        show_function()
    else if (code ~ /^(typedef|enum|struct)/) {
        if (code ~ /^(typedef )?(struct|enum) [a-z_]+ \{/) {
            type = code
            sub(/^typedef /, "", type)
            sub(/^(struct|enum) /, "", type)
            sub(/[^a-z_].*/, "", type)
            types[++type_count] = type
            bodies[type_count] = verbatim()
        }
        show_verbatim()
    }
    code = comment = ""
    reading = ""
}

BEGIN {
    main = to = "/dev/stdout"
    begin_page("libsimba", "distributed mutexes on several stores")
    print ".SH SYNOPSIS\n.nf\n.B #include <simba.h>\n" > to
    print "cc ... $(pkg\\-config \\-\\-cflags \\-\\-libs simba)\n.fi" > to
    print ".SH DESCRIPTION" > to
    print "Processes on many machines contend for a named mutex, and at any" > to
    print "moment at most one of them owns it. One protocol runs over several" > to
    print "stores, chosen by URL. What follows is said header by header; each" > to
    print "function has a page of its own." > to
}
FNR == 1 {
    flush_list()
    type_count = 0
    is_sys = FILENAME ~ /\/sys\//
    if (!is_sys)
        print ".SH " toupper(FILENAME) > to
    reading = comment = code = about = ""
}
/^SIMBA_(BEGIN|END)_DECLS/ { next }
/^#(include|if|endif|else|undef|pragma)/ { next }
reading == "" && /^#define/ { reading = "macro"; code = "" }
reading == "macro" {
    line = $0
    sub(/ *\\$/, " \\", line)
    code = code (code == "" ? "" : "\n") line
    if (/\\$/)
        next
    if (comment != "")
        show_verbatim()
    code = comment = reading = ""
    next
}
reading == "" && /^\/\*\*/ { reading = "comment"; comment = "" }
reading == "" && /^\/\*/ && !/^\/\*\*/ { reading = "aside" }
reading == "aside" { if (/\*\//) reading = ""; next }
reading == "comment" {
    line = $0
    is_last = line ~ /\*\//
    sub(/^ ?\/?\*+\/? ?/, "", line)
    sub(/ ?\*\/$/, "", line)
    if (line !~ /^@file/ && !(is_last && line == ""))
        comment = comment (comment == "" ? "" : "\n") line
    else if (line ~ /^@file/)
        is_file = 1
    if (is_last) {
        reading = ""
        if (is_file && !is_sys)
            tell(comment)
        if (is_file) {
            about = comment
            comment = ""
        }
        is_file = 0
    }
    next
}
reading == "" && /^$/ { if (code == "") comment = ""; next }
reading == "" {
    reading = "code"
    code = ""
}
reading == "code" {
    code = code (code == "" ? "" : "\n") $0
    if (code ~ /^static inline/) {
        if (/^}/)
            end_code()
    } else if (/;/ && (code !~ /\{/ || /^}/ || /\{.*};$/))
        end_code()
}
END {
    flush_list()
    print ".SH SEE ALSO\n.BR simba (1)," > to
    print ".BR simba.conf (5)," > to
    print ".BR simba-sqlite (7)" > to
}
