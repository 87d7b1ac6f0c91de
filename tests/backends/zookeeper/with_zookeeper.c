/* Runs a command beside ZooKeeper servers of its own; "{}" in an argument
 * becomes their URL.
 *
 *   with_zookeeper COUNT COMMAND [ARGUMENT...] */
#define _GNU_SOURCE
#include "servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct servers servers;

static char *with_url(char *argument)
{
    const char *position = strstr(argument, "{}");
    char *text = NULL;

    if (position == NULL) {
        return argument;
    }
    return asprintf(&text, "%.*szookeeper://%s%s", (int)(position - argument),
                    argument, servers.hosts, position + 2) < 0
               ? argument
               : text;
}

static int run(char **command)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        execvp(command[0], command);
        perror(command[0]);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        return 99;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[1]) : 0, rc;

    if (count != 1 && count != SERVERS_MOST) {
        fputs("usage: with_zookeeper 1|3 COMMAND [ARGUMENT...]\n", stderr);
        return 64;
    }
    if (!servers_installed()) {
        puts("1..0 # SKIP no ZooKeeper server is installed");
        return 77;
    }
    servers_reap_every(60000); /* as servers of users do */
    servers_start(&servers, count);
    for (int i = 2; i < argc; i++) {
        argv[i] = with_url(argv[i]);
    }
    rc = run(argv + 2);
    servers_stop(&servers);
    return rc;
}
