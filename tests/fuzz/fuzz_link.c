/* What the guardian tells the front: notes of any content, received and told.
 * Both ends are ours, so a note has a kind, its text an end, and a place in the
 * text lies within it. */
#define _GNU_SOURCE
#include "fuzz/fuzz.h"

#include "cli/front.h"

#include <sys/socket.h>
#include <unistd.h>

char *simba__fuzz_strdup(const char *text);
_Noreturn void simba__fuzz_exit(int code);

/* What fuzz_argv has, too. */
char *simba__fuzz_strdup(const char *text)
{
    return strdup(text);
}

_Noreturn void simba__fuzz_exit(int code)
{
    _exit(code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct simba__share share;
    static int ends[2] = {-1, -1};
    static char name[] = "cmd";
    static char *argv[] = {name, NULL};
    struct simba__job job = {
        .mutex = "m", .argv = argv, .tty = -1, .wait_ms = -1, .share = &share};
    struct simba__front front = {.job = &job, .share = &share, .link = -1};
    struct simba__note note;
    int descriptor, rc;

    if (size < 2) {
        return 0;
    }
    if (ends[0] < 0) {
        FUZZ_CHECK(socketpair(AF_UNIX,
                              SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                              ends) == 0);
    }
    job.kind = (enum simba__job_kind)(data[0] % 3);
    job.cli.is_json = (data[0] & 64) != 0;
    job.cli.verbosity = (data[0] >> 2 & 3) - 1;
    front.was_acquired = (data[0] & 128) != 0;
    for (data++, size--; size > 0;) {
        size_t length = size < sizeof note ? size : sizeof note;

        /* Mostly whole, for others are not taken. */
        FUZZ_CHECK(send(ends[0], data, length, 0) == (ssize_t)length);
        rc = simba__link_receive(ends[1], &note, &descriptor);
        FUZZ_CHECK(rc == (length == sizeof note ? 1 : -1));
        if (rc == 1) {
            note.kind = (int)((unsigned)note.kind % (SIMBA__NOTE_LOG + 1));
            note.number %= 1000000;
            note.boot_ms = note.boot_ms >> 8; /* of our own clock */
            note.until_ms = note.until_ms >> 8;
            note.text[sizeof note.text - 1] = '\0';
            note.seen =
                note.kind == SIMBA__NOTE_LOG
                    ? (int)((unsigned)note.seen % (strlen(note.text) + 1))
                    : note.seen;
            simba__events_tell(&front, &note);
        }
        data += length;
        size -= length;
    }
    return 0;
}
