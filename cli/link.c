/* The line between front and guardian, a pair of SEQPACKET sockets. */
#define _GNU_SOURCE
#include "link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Space for one descriptor, aligned as a control message must be. */
union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

bool simba__link_open(int ends[2])
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                      ends) == 0;
}

static void attach(struct msghdr *message, union control *control, int number)
{
    memset(control, 0, sizeof(*control));
    control->header.cmsg_level = SOL_SOCKET;
    control->header.cmsg_type = SCM_RIGHTS;
    control->header.cmsg_len = CMSG_LEN(sizeof(number));
    memcpy(CMSG_DATA(&control->header), &number, sizeof(number));
    message->msg_control = control;
    message->msg_controllen = sizeof(*control);
}

void simba__link_send(int end, const struct simba__note *note, int descriptor)
{
    struct iovec part = {(void *)note, sizeof(*note)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    union control control;

    if (descriptor >= 0) {
        attach(&message, &control, descriptor);
    }
    while (sendmsg(end, &message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
}

static int detach(struct msghdr *message)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    int number = -1;

    if (header != NULL && header->cmsg_level == SOL_SOCKET &&
        header->cmsg_type == SCM_RIGHTS) {
        memcpy(&number, CMSG_DATA(header), sizeof(number));
    }
    return number;
}

int simba__link_receive(int end, struct simba__note *note, int *descriptor)
{
    union control control;
    struct iovec part = {note, sizeof(*note)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t length;

    do {
        length = recvmsg(end, &message, MSG_CMSG_CLOEXEC);
    } while (length < 0 && errno == EINTR);
    if (descriptor != NULL) {
        *descriptor = length > 0 ? detach(&message) : -1;
    }
    if (length < 0) {
        return errno == EAGAIN ? 0 : -1;
    }
    return length == (ssize_t)sizeof(*note) ? 1 : -1;
}
