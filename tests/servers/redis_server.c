/* Redis servers of a test's own; see redis_server.h. */
#define _GNU_SOURCE
#include "redis_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_TENTHS = 300 };

static void die(const char *what, const char *why)
{
    fprintf(stderr, "redis server: %s: %s\n", what, why);
    abort();
}

void redis_nap_ms(long ms)
{
    struct timespec nap = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&nap, NULL);
}

int redis_free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0) {
        die("no free port", strerror(errno));
    }
    close(fd);
    return ntohs(at.sin_port);
}

void redis_prepare(struct redis *redis)
{
    *redis = (struct redis){0};
    snprintf(redis->directory, sizeof redis->directory,
             "/tmp/simba-redis-XXXXXX");
    if (mkdtemp(redis->directory) == NULL) {
        die(redis->directory, strerror(errno));
    }
    redis->port = redis_free_port();
}

void redis_option(struct redis *redis, const char *name, const char *value)
{
    const char *words[] = {name, value, NULL};

    for (int i = 0; words[i] != NULL; i++) {
        char *text = redis->texts[redis->option_count];

        snprintf(text, sizeof redis->texts[0], "%s", words[i]);
        redis->options[redis->option_count++] = text;
    }
}

/* --- processes ----------------------------------------------------------- */

/* Debian has the server in redis-tools under another name, which it obeys; so
 * nothing need be installed that starts by itself. */
static const char *program(void)
{
    static const char *const names[] = {
        "/usr/bin/redis-server", "/usr/local/bin/redis-server",
        "/usr/bin/valkey-server", "/usr/bin/redis-check-rdb"};
    const char *chosen = getenv("SIMBA_TEST_REDIS_SERVER");

    if (chosen != NULL && chosen[0] != '\0') {
        return chosen;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (access(names[i], X_OK) == 0) {
            return names[i];
        }
    }
    die("not installed", "redis-tools has it");
    return NULL;
}

bool redis_is_before_7(void)
{
    char command[256], line[128] = "";
    const char *version;
    FILE *pipe;

    snprintf(command, sizeof command, "'%s' --version", program());
    pipe = popen(command, "re");
    if (pipe == NULL || fgets(line, sizeof line, pipe) == NULL) {
        die(command, "says nothing");
    }
    pclose(pipe);
    version = strstr(line, " v=");
    return version != NULL && atoi(version + 3) < 7;
}

static void exec_server(const struct redis *redis)
{
    static char server[] = "redis-server", sentinel[] = "redis-sentinel";
    char port[16];
    const char *words[REDIS_OPTIONS_MOST + 16];
    int count = 0;
    int log;

    snprintf(port, sizeof port, "%d", redis->port);
    words[count++] = redis->is_sentinel ? sentinel : server;
    if (redis->is_sentinel) {
        words[count++] = "sentinel.conf";
    } else {
        words[count++] = "--port";
        words[count++] = port;
        words[count++] = "--bind";
        words[count++] = "127.0.0.1";
        words[count++] = "--save";
        words[count++] = "";
        if (!redis->is_before_7) {
            words[count++] = "--enable-debug-command";
            words[count++] = "yes";
        }
    }
    for (int i = 0; i < redis->option_count; i++) {
        words[count++] = redis->options[i];
    }
    words[count] = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    log = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execv(program(), (char *const *)words);
    _exit(127);
}

static bool answers(const struct redis *redis)
{
    struct timeval patience = {1, 0};
    redisContext *context =
        redisConnectWithTimeout("127.0.0.1", redis->port, patience);
    redisReply *reply = NULL;
    bool is_there;

    if (context != NULL && context->err == 0) {
        redisSetTimeout(context, patience);
        reply = redisCommand(context, "PING");
    }
    is_there = reply != NULL && strncmp(reply->str, "LOADING", 7) != 0;
    freeReplyObject(reply);
    if (context != NULL) {
        redisFree(context);
    }
    return is_there;
}

static void show_log(const struct redis *redis)
{
    char command[128];

    snprintf(command, sizeof command, "tail -n 20 %s/log >&2",
             redis->directory);
    if (system(command) != 0) {
        fprintf(stderr, "no log\n");
    }
}

void redis_run(struct redis *redis)
{
    redis->is_before_7 = redis_is_before_7();
    redis->pid = fork();
    if (redis->pid == 0) {
        if (chdir(redis->directory) == 0) {
            exec_server(redis);
        }
        _exit(126);
    }
    for (int i = 0; i < PATIENCE_TENTHS * 10; i++) {
        if (answers(redis)) {
            return;
        }
        if (waitpid(redis->pid, NULL, WNOHANG) == redis->pid) {
            break;
        }
        redis_nap_ms(10);
    }
    show_log(redis);
    die(redis->directory, "it does not come up");
}

void redis_start(struct redis *redis, const char *const *options)
{
    redis_prepare(redis);
    for (int i = 0; options != NULL && options[i] != NULL; i++) {
        redis_option(redis, options[i], NULL);
    }
    redis_run(redis);
}

static void end(struct redis *redis, int signal)
{
    if (redis->pid > 0) {
        kill(redis->pid, signal);
        kill(redis->pid, SIGCONT);
        waitpid(redis->pid, NULL, 0);
        redis->pid = 0;
    }
}

void redis_stop(struct redis *redis)
{
    end(redis, SIGTERM);
}

void redis_kill(struct redis *redis)
{
    end(redis, SIGKILL);
}

void redis_pause(const struct redis *redis, bool is_paused)
{
    kill(redis->pid, is_paused ? SIGSTOP : SIGCONT);
}

void redis_remove(struct redis *redis)
{
    char command[128];

    redis_kill(redis);
    if (redis->directory[0] != '\0') {
        snprintf(command, sizeof command, "rm -rf '%s'", redis->directory);
        if (system(command) != 0) {
            fprintf(stderr, "cannot remove %s\n", redis->directory);
        }
        redis->directory[0] = '\0';
    }
}

/* --- commands ------------------------------------------------------------ */

static redisReply *carry_out(const struct redis *redis,
                             const char *format,
                             va_list arguments)
{
    struct timeval patience = {20, 0};
    redisContext *context =
        redisConnectWithTimeout("127.0.0.1", redis->port, patience);
    redisReply *reply;

    if (context == NULL || context->err != 0) {
        die("connect", context == NULL ? "memory" : context->errstr);
    }
    redisSetTimeout(context, patience);
    if (redis->password != NULL) {
        freeReplyObject(redisCommand(
            context, "AUTH %s %s",
            redis->user == NULL ? "default" : redis->user, redis->password));
    }
    reply = redisvCommand(context, format, arguments);
    if (reply == NULL) {
        die(format, context->errstr);
    }
    redisFree(context);
    return reply;
}

redisReply *redis_do(const struct redis *redis, const char *format, ...)
{
    redisReply *reply;
    va_list arguments;

    va_start(arguments, format);
    reply = carry_out(redis, format, arguments);
    va_end(arguments);
    return reply;
}

long long redis_number(const struct redis *redis, const char *format, ...)
{
    redisReply *reply;
    va_list arguments;
    long long number;

    va_start(arguments, format);
    reply = carry_out(redis, format, arguments);
    va_end(arguments);
    if (reply->type == REDIS_REPLY_ERROR) {
        die(format, reply->str);
    }
    number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    return number;
}

const char *redis_text(const struct redis *redis, const char *format, ...)
{
    static char text[4096];
    redisReply *reply;
    va_list arguments;

    va_start(arguments, format);
    reply = carry_out(redis, format, arguments);
    va_end(arguments);
    snprintf(text, sizeof text, "%s", reply->str == NULL ? "" : reply->str);
    freeReplyObject(reply);
    return text;
}

const char *redis_url(const struct redis *redis, const char *rest)
{
    static char url[512];

    snprintf(url, sizeof url, "redis://127.0.0.1:%d%s", redis->port, rest);
    return url;
}
