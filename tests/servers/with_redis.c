/* with_redis SHAPE PROGRAM [ARGUMENT]...
 *
 * Starts Redis in a shape of its own, runs the program with every "{}" among
 * its arguments replaced by the URL, and ends as the program did. */
#define _GNU_SOURCE
#include "servers/redis_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct redis_shape shape;
    int status = 0;
    pid_t child;

    if (argc < 3) {
        fprintf(stderr, "usage: with_redis SHAPE PROGRAM [ARGUMENT]...\n");
        return 64;
    }
    redis_shape_start(&shape, argv[1]);
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "{}") == 0) {
            argv[i] = shape.url;
        }
    }
    child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    waitpid(child, &status, 0);
    redis_shape_remove(&shape);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
