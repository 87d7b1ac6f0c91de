/* Runs a program on a terminal of its own and plays the user.
 *
 *     pty STEP... -- CMD [ARG...]
 *
 *     expect:TEXT   wait until TEXT was printed after what was expected last
 *     send:TEXT     type it; \n, \r, \xHH and \\ are understood
 *     size:RxC      change the size of the window
 *     until:LINE    run LINE by bash, over and over, until it succeeds
 *     hangup        close the terminal
 *
 * Everything the program prints goes to stdout. Exits with the program's code,
 * 128 + n when signal n ended it, or 99 when a step takes longer than 60 s. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { STEP_MOST_MS = 60000, GAVE_UP = 99 };

static char seen[1 << 20]; /* all that was printed */
static size_t seen_length;
static size_t looked_at; /* what lies before has been expected */
static int terminal;
static pid_t program;

static long long now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void die(const char *what)
{
    (void)fprintf(stderr, "pty: %s: %s\n", what, strerror(errno));
    exit(GAVE_UP);
}

static void be_program(const char *name, char **argv)
{
    int end;

    (void)setsid();
    end = open(name, O_RDWR); /* becomes the controlling terminal */
    if (end < 0 || dup2(end, 0) < 0 || dup2(end, 1) < 0 || dup2(end, 2) < 0) {
        _exit(GAVE_UP);
    }
    if (end > 2) {
        (void)close(end);
    }
    (void)execvp(argv[0], argv);
    _exit(127);
}

static void resize(const char *text)
{
    struct winsize size = {0};
    char *end = NULL;

    size.ws_row = (unsigned short)strtoul(text, &end, 10);
    size.ws_col = (unsigned short)strtoul(end + 1, NULL, 10);
    (void)ioctl(terminal, TIOCSWINSZ, &size);
}

/* A size that is wanted first of all is there before the program looks. */
static void start(char **argv, const char *first)
{
    terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) {
        die("posix_openpt");
    }
    if (strncmp(first, "size:", 5) == 0) {
        resize(first + 5);
    }
    program = fork();
    if (program < 0) {
        die("fork");
    }
    if (program == 0) {
        be_program(ptsname(terminal), argv);
    }
}

/* False at the end of the program's output. */
static bool read_some(long long until_ms)
{
    struct pollfd source = {.fd = terminal, .events = POLLIN};
    long long left = until_ms - now_ms();
    ssize_t length;

    if (left <= 0 || poll(&source, 1, (int)left) <= 0) {
        errno = ETIMEDOUT;
        die("waiting for output");
    }
    length = read(terminal, seen + seen_length, sizeof seen - 1 - seen_length);
    if (length <= 0) {
        return false;
    }
    (void)fwrite(seen + seen_length, 1, (size_t)length, stdout);
    (void)fflush(stdout);
    seen_length += (size_t)length;
    return true;
}

static void expect(const char *text)
{
    long long until_ms = now_ms() + STEP_MOST_MS;
    char *at;

    for (;;) {
        seen[seen_length] = '\0';
        at = strstr(seen + looked_at, text);
        if (at != NULL) {
            looked_at = (size_t)(at - seen) + strlen(text);
            return;
        }
        if (!read_some(until_ms)) {
            (void)fprintf(stderr, "pty: ended before '%s'\n", text);
            exit(GAVE_UP);
        }
    }
}

/* Resolves the escape at `*at` and moves on to its last character. */
static char unescape(const char **at)
{
    char digits[3] = {0, 0, 0};

    ++*at;
    switch (**at) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 'x':
        digits[0] = (*at)[1];
        digits[1] = (*at)[2];
        *at += 2;
        return (char)strtol(digits, NULL, 16);
    default:
        return **at;
    }
}

static void type(const char *text)
{
    for (; *text != '\0'; text++) {
        char key = *text == '\\' ? unescape(&text) : *text;

        if (write(terminal, &key, 1) != 1) {
            die("write");
        }
    }
}

/* Not by system(): its sh would drop functions that bash has exported. */
static bool succeeds(const char *line)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

        (void)dup2(nowhere, STDOUT_FILENO);
        (void)dup2(nowhere, STDERR_FILENO);
        (void)execlp("bash", "bash", "-c", line, (char *)NULL);
        _exit(GAVE_UP);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void repeat(const char *line)
{
    static const struct timespec pause = {0, 10000000};
    long long until_ms = now_ms() + STEP_MOST_MS;

    while (!succeeds(line)) {
        if (now_ms() > until_ms) {
            errno = ETIMEDOUT;
            die(line);
        }
        (void)nanosleep(&pause, NULL);
    }
}

static void play(const char *step)
{
    if (strncmp(step, "expect:", 7) == 0) {
        expect(step + 7);
    } else if (strncmp(step, "send:", 5) == 0) {
        type(step + 5);
    } else if (strncmp(step, "size:", 5) == 0) {
        resize(step + 5);
    } else if (strncmp(step, "until:", 6) == 0) {
        repeat(step + 6);
    } else if (strcmp(step, "hangup") == 0) {
        (void)close(terminal);
        terminal = -1;
    } else {
        (void)fprintf(stderr, "pty: unknown step '%s'\n", step);
        exit(GAVE_UP);
    }
}

static int finish(void)
{
    long long until_ms = now_ms() + STEP_MOST_MS;
    int status = 0;

    while (terminal >= 0 && read_some(until_ms)) {
    }
    if (waitpid(program, &status, 0) != program) {
        die("waitpid");
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    int i;
    int first = 1;

    while (first < argc && strcmp(argv[first], "--") != 0) {
        first++;
    }
    if (first + 1 >= argc) {
        (void)fprintf(stderr, "usage: pty STEP... -- CMD [ARG...]\n");
        return GAVE_UP;
    }
    start(argv + first + 1, argv[1]);
    for (i = 1; i < first; i++) {
        play(argv[i]);
    }
    return finish();
}
