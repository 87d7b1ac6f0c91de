/* Stands in for systemd: takes datagrams at a socket and prints them, one a
 * line, until its input ends. Or for a server that does not answer: prints the
 * port of 127.0.0.1 where it lets everybody in, and "came" for each.
 *
 *     listener PATH
 *     listener --silent
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int end = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (end < 0 || strlen(path) >= sizeof address.sun_path) {
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path));
    return bind(end, (struct sockaddr *)&address, sizeof address) == 0 ? end
                                                                       : -1;
}

static int be_silent_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int end = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(end, (struct sockaddr *)&address, size) != 0 ||
        listen(end, SOMAXCONN) != 0 ||
        getsockname(end, (struct sockaddr *)&address, &size) != 0) {
        return -1;
    }
    printf("%d\n", ntohs(address.sin_port));
    (void)fflush(stdout);
    return end;
}

static void print_one(int end)
{
    char text[4096];
    ssize_t length = recv(end, text, sizeof text - 1, 0);

    if (length > 0) {
        text[length] = '\0';
        puts(text);
        (void)fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    bool is_silent = argc == 2 && strcmp(argv[1], "--silent") == 0;
    int end = is_silent   ? be_silent_server()
              : argc == 2 ? listen_at(argv[1])
                          : -1;
    struct pollfd sources[] = {{.fd = end, .events = POLLIN},
                               {.fd = STDIN_FILENO, .events = POLLIN}};

    if (end < 0) {
        perror("listener");
        return 1;
    }
    for (;;) {
        if (poll(sources, 2, -1) <= 0) {
            continue;
        }
        if (sources[0].revents != 0 && is_silent) {
            puts(accept(end, NULL, NULL) >= 0 ? "came" : "failed"); /* kept */
            (void)fflush(stdout);
        } else if (sources[0].revents != 0) {
            print_one(end);
        } else if (sources[1].revents != 0) {
            return 0;
        }
    }
}
