/* What front and guardian must agree upon, and the link between them, a pair of
 * SEQPACKET sockets. */
#define _GNU_SOURCE
#include "cli/job.h"
#include "util/text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

/* A lock that waits ends as any other program would. Who leads is a daemon, to
 * whom USR1 and the like are messages for its CMD, and so is HUP where no
 * terminal can hang up. */
bool simba__job_is_ended_by(const struct simba__job *job, int number)
{
    switch (number) {
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGCONT:
    case SIGURG:
    case SIGWINCH:
        return false;
    case SIGINT:
    case SIGQUIT:
    case SIGTERM:
        return true;
    case SIGHUP:
        return job->kind == SIMBA__JOB_LOCK || job->tty >= 0;
    default:
        return job->kind == SIMBA__JOB_LOCK;
    }
}

/* Nothing in it but the two slashes is one, and nothing a blank. */
char *simba__job_held(const char *mutex, const char *id, uint64_t token)
{
    struct simba__text text = {0};

    simba__text_escape(&text, mutex);
    simba__text_put(&text, "/");
    if (id != NULL) {
        simba__text_escape(&text, id);
        simba__text_printf(&text, "/%" PRIu64, token);
    }
    return simba__text_take(&text);
}

/* Space for one descriptor, aligned as a control message must be. */
union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

void simba__link_send(int end, const struct simba__note *note, int descriptor)
{
    struct iovec part = {(void *)note, sizeof *note};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    union control control;

    if (descriptor >= 0) {
        memset(&control, 0, sizeof control);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof descriptor);
        memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
    }
    while (sendmsg(end, &message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
}

int simba__link_receive(int end, struct simba__note *note, int *descriptor)
{
    union control control;
    struct iovec part = {note, sizeof *note};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header;
    ssize_t length;

    do {
        length = recvmsg(end, &message, MSG_CMSG_CLOEXEC);
    } while (length < 0 && errno == EINTR);
    header = length > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (descriptor != NULL) {
        *descriptor = -1;
    }
    if (descriptor != NULL && header != NULL &&
        header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        memcpy(descriptor, CMSG_DATA(header), sizeof *descriptor);
    }
    if (length < 0) {
        return errno == EAGAIN ? 0 : -1;
    }
    return length == (ssize_t)sizeof *note ? 1 : -1;
}
