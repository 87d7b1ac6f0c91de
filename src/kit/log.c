#include "kit/log.h"

#include <stdarg.h>
#include <stdio.h>

void simba__log(const struct simba__log *log,
                enum simba_log_level level,
                const char *format,
                ...)
{
    char message[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    log->write(log->user, level, log->store, message);
}
