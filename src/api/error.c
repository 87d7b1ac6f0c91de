#include <simba/error.h>
#include <simba/version.h>

#include <stdarg.h>
#include <stdio.h>

const char *simba_strerror(int status)
{
    switch (status) {
#define TEXT_CASE(name, code, text)                                            \
    case SIMBA_##name:                                                         \
        return text;
        SIMBA_STATUS_MAP(TEXT_CASE)
#undef TEXT_CASE
    default:
        return "unknown code";
    }
}

const char *simba_status_name(int status)
{
    static const char *const names[] = {
        "ok",          "invalid",         "busy",
        "timed-out",   "cancelled",       "unreachable",
        "denied",      "misconfigured",   "not-initialised",
        "lost",        "unknown-outcome", "misuse",
        "forked",      "no-memory",       "internal",
        "not-written",
    };

    return status > 0 || status <= -(int)(sizeof names / sizeof *names)
               ? "unknown-code"
               : names[-status];
}

int simba_version_number(void)
{
    return SIMBA_VERSION_NUMBER;
}

int simba_error_set(simba_error *error,
                    int code,
                    int native,
                    const char *format,
                    ...)
{
    va_list args;

    if (error == NULL) {
        return code;
    }
    error->code = code;
    error->native = native;
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return code;
}
