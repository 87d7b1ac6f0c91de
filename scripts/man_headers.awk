# libsimba(3) from the public headers: see scripts/man.
#
# A header's first comment says what it is for. After that a comment that begins
# with two stars belongs to the declaration below it: of a function the
# prototype is the heading, and its @param and @return lines become a list;
# structures, enums and macros are shown as they stand.

function escape(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    return (text ~ /^[.\047]/ ? "\\&" : "") text
}

function prose(text) {
    gsub(/\\/, "\\e", text)
    return (text ~ /^[.\047]/ ? "\\&" : "") text
}

# The text of a comment: prose, code where it is indented, and lists.
function tell(comment,    n, i, lines, line, in_code, word) {
    n = split(comment, lines, "\n")
    for (i = 1; i <= n; i++) {
        line = lines[i]
        if (line ~ /^    / && !in_param) {
            if (!in_code)
                print ".PP\n.nf\n.RS 4"
            in_code = 1
            print escape(substr(line, 5))
            continue
        }
        if (in_code) {
            print ".RE\n.fi"
            in_code = 0
        }
        sub(/^ +/, "", line)
        if (line == "") {
            if (i < n && lines[i + 1] !~ /^@/ && lines[i + 1] !~ /^    /)
                print in_param ? ".RE\n.PP" : ".PP"
            in_param = 0
        } else if (line ~ /^@param/) {
            sub(/^@param(\[[a-z,]*\])? */, "", line)
            word = line
            sub(/ .*/, "", word)
            sub(/^[^ ]* */, "", line)
            print (in_param ? "" : ".RS 4\n") ".TP\n.I " escape(word)
            in_param = 1
            if (line != "")
                print prose(line)
        } else if (line ~ /^@return/) {
            sub(/^@return */, "", line)
            print (in_param ? "" : ".RS 4\n") ".TP\n.B returns"
            in_param = 1
            print prose(line)
        } else
            print prose(line)
    }
    if (in_code)
        print ".RE\n.fi"
    if (in_param)
        print ".RE"
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

function show_function() {
    print ".PP\n.B " escape(heading(code)) ";"
    print ".RS 4"
    tell(comment)
    print ".RE"
}

function show_verbatim(    n, i, lines) {
    if (comment != "") {
        print ".PP"
        tell(comment)
    }
    print ".PP\n.nf\n.RS 4"
    n = split(code, lines, "\n")
    for (i = 1; i <= n; i++)
        print escape(lines[i])
    print ".RE\n.fi"
}

function end_code() {
    if (code ~ /SIMBA_API/)
        show_function()
    else if (code ~ /^(typedef|enum|struct)/)
        show_verbatim()
    code = comment = ""
    reading = ""
}

BEGIN {
    print ".\\\" Made by scripts/man from the public headers."
    printf ".TH LIBSIMBA 3 \"\" \"%s\" \"Library Functions\"\n", version
    print ".SH NAME\nlibsimba \\- distributed mutexes on several stores"
    print ".SH SYNOPSIS\n.nf\n.B #include <simba.h>\n"
    print "cc ... $(pkg\\-config \\-\\-cflags \\-\\-libs simba)\n.fi"
    print ".SH DESCRIPTION"
    print "Processes on many machines contend for a named mutex, and at any"
    print "moment at most one of them owns it. One protocol runs over several"
    print "stores, chosen by URL. What follows is said header by header."
}
FNR == 1 { print ".SH " toupper(FILENAME); reading = comment = code = "" }
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
        if (is_file)
            tell(comment)
        if (is_file)
            comment = ""
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
    print ".SH SEE ALSO\n.BR simba (1)"
}
