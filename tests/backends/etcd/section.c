/* A critical section that tells by itself when it ran.
 *
 *   section FILE MILLISECONDS
 *
 * Adds lines "WHO TIME" to the file, one when it begins, one when it ends and
 * one every two milliseconds between, so that who is killed is known to have
 * run up to its last line. TIME is microseconds of the boot clock, WHO the
 * process and when it began: numbers of processes come again. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
    int fd =
        argc == 3 ? open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    int64_t since_us = now_us(),
            until_us =
                since_us + 1000 * (argc == 3 ? strtol(argv[2], NULL, 10) : 0);

    for (;;) {
        int64_t at_us = now_us();

        if (fd < 0 || dprintf(fd, "%ld-%lld %lld\n", (long)getpid(),
                              (long long)since_us, (long long)at_us) <= 0) {
            return 1;
        }
        if (at_us >= until_us) {
            return 0;
        }
        usleep(2000);
    }
}
