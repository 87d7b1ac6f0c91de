/* The proxy of a storm does what a nemesis says, whoever else is at work in the
 * same process: servers are started beside it. */
#define _GNU_SOURCE
#include "fixtures/tcp_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixtures/unit_test.h"

static int connect_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = connect(fd, (struct sockaddr *)&address, sizeof address) == 0
                    ? 0
                    : errno;

    close(fd);
    return error;
}

/* A child that has not come to its program yet has a copy of all descriptors:
 * on a busy machine for seconds. */
TEST(test_proxy__refuses_and_hears_again_while_a_child_starts)
{
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    struct proxy *proxy;
    pid_t child;

    assert_int_equal(bind(server, (struct sockaddr *)&address, sizeof address),
                     0);
    assert_int_equal(listen(server, 4), 0);
    assert_int_equal(getsockname(server, (struct sockaddr *)&address, &length),
                     0);
    proxy = proxy_open(ntohs(address.sin_port));
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pause();
        _exit(0);
    }
    proxy_refuse(proxy, true);
    assert_int_equal(connect_to(proxy_port(proxy)), ECONNREFUSED);
    proxy_refuse(proxy, false);
    assert_int_equal(connect_to(proxy_port(proxy)), 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    proxy_close(proxy);
    close(server);
}
