/* What a contender tells about itself, found out when it is opened. */
#define _GNU_SOURCE
#include "api/contender.h"
#include "core/told.h"
#include "kit/secret.h"

#include <assert.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More of a command line is not looked at; what is told is shorter still. */
enum { COMMAND_MOST = 4096, USER_ROOM = 4096 };

/* --- the command --------------------------------------------------------- */

/* The words of /proc/self/cmdline end with NULs. */
static void read_command(char command[COMMAND_MOST])
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, command, COMMAND_MOST - 1);

    length = length < 0 ? 0 : length;
    if (fd >= 0) {
        (void)close(fd);
    }
    while (length > 0 && command[length - 1] == '\0') {
        length--;
    }
    for (ssize_t i = 0; i < length; i++) {
        if (command[i] == '\0') {
            command[i] = ' ';
        }
    }
    command[length] = '\0';
}

/* Word by word, for a URL may stand anywhere. Other secrets look like words of
 * any other kind. */
static void hide_secrets(char *command)
{
    char *to = command;

    for (char *word = command; *word != '\0';) {
        size_t length = strcspn(word, " \t\n");
        char end = word[length];

        word[length] = '\0';
        if (strstr(word, "://") != NULL ||
            strcasestr(word, "password") != NULL) {
            simba__url_hide(word);
        }
        memmove(to, word, strlen(word));
        to += strlen(word);
        word += length;
        if (end != '\0') {
            *to++ = end;
            word++;
        }
    }
    *to = '\0';
}

static void find_command(const char *given, simba_told *told)
{
    char command[COMMAND_MOST];

    if (given == NULL) {
        read_command(command);
    } else {
        (void)snprintf(command, sizeof command, "%s", given);
    }
    hide_secrets(command);
    simba__told_copy(told->command, sizeof told->command, command);
    explicit_bzero(command, sizeof command);
}

/* --- who we are ---------------------------------------------------------- */

static void find_host(simba_told *told)
{
    char host[SIMBA_TOLD_WORD_MAX + 1] = ""; /* the longest on Linux */

    if (gethostname(host, sizeof host) == 0) {
        host[sizeof host - 1] = '\0';
        simba__told_copy(told->host, sizeof told->host, host);
    }
}

static void find_user(simba_told *told)
{
    struct passwd entry, *found = NULL;
    char room[USER_ROOM];

    if (getpwuid_r(geteuid(), &entry, room, sizeof room, &found) == 0 &&
        found != NULL) {
        simba__told_copy(told->user, sizeof told->user, found->pw_name);
    } else {
        (void)snprintf(told->user, sizeof told->user, "%lu",
                       (unsigned long)geteuid());
    }
}

int simba__config_tell(const simba_store *store,
                       const simba_contender *given,
                       struct simba__teller **teller,
                       simba_error *error)
{
    const uint32_t known =
        SIMBA_TELL_HOST | SIMBA_TELL_PID | SIMBA_TELL_USER | SIMBA_TELL_COMMAND;
    char text[SIMBA__TOLD_ROOM];
    simba_told told = {.pid = 0};

    assert(*teller == NULL);
    if (given->tell == 0) {
        return SIMBA_OK;
    }
    if ((given->tell & ~known) != 0) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "tell is no set of enum simba_tell");
    }
    if (!(store->backend->ops->capabilities & SIMBA_CAN_TELL)) {
        return simba_error_set(error, SIMBA_EINVAL, 0,
                               "this store has no place for what owners tell "
                               "about themselves");
    }
    if (given->tell & SIMBA_TELL_HOST) {
        find_host(&told);
    }
    if (given->tell & SIMBA_TELL_PID) {
        told.pid = getpid();
    }
    if (given->tell & SIMBA_TELL_USER) {
        find_user(&told);
    }
    if (given->tell & SIMBA_TELL_COMMAND) {
        find_command(given->command, &told);
    }
    simba__told_write(text, &told);
    *teller = calloc(1, sizeof **teller + strlen(text) + 1);
    if (*teller == NULL) {
        return simba__fail_memory(error);
    }
    memcpy((*teller)->text, text, strlen(text) + 1);
    return SIMBA_OK;
}
