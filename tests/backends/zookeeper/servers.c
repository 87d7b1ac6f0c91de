#define _GNU_SOURCE
#include "servers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JAVA "/usr/bin/java"
#define JAR  "/usr/share/java/zookeeper.jar"

enum { START_PATIENCE_S = 60, TICK_MS = 500 };

static int reap_ms = 500;

void servers_reap_every(int ms)
{
    reap_ms = ms;
}

static const char *option = "-Dsimba=tests"; /* which none heeds */

void servers_with(const char *one_more)
{
    option = one_more;
}

bool servers_installed(void)
{
    return access(JAVA, X_OK) == 0 && access(JAR, R_OK) == 0;
}

static void give_up(const char *why)
{
    fprintf(stderr, "zookeeper servers: %s\n", why);
    exit(99);
}

/* --- ports --------------------------------------------------------------- */

/* A port that was free a moment ago. All are taken at once, so that no two are
 * the same. */
static void find_ports(int *ports, int count)
{
    int sockets[3 * SERVERS_MOST];

    for (int i = 0; i < count; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        socklen_t length = sizeof address;

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(sockets[i], (struct sockaddr *)&address, length) != 0 ||
            getsockname(sockets[i], (struct sockaddr *)&address, &length) !=
                0) {
            give_up("no free port");
        }
        ports[i] = ntohs(address.sin_port);
    }
    for (int i = 0; i < count; i++) {
        close(sockets[i]);
    }
}

/* --- one server ---------------------------------------------------------- */

static void write_config(const struct servers *servers, int index)
{
    const struct server *self = &servers->one[index];
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%d.cfg", servers->directory, index);
    file = fopen(path, "w");
    if (file == NULL) {
        give_up("cannot write a configuration");
    }
    fprintf(file,
            "tickTime=%d\ninitLimit=20\nsyncLimit=20\ndataDir=%s/%d\n"
            "clientPort=%d\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\n"
            "maxSessionTimeout=60000\nstandaloneEnabled=true\n"
            "4lw.commands.whitelist=srvr\n",
            TICK_MS, servers->directory, index, self->client_port);
    for (int i = 0; servers->count > 1 && i < servers->count; i++) {
        const struct server *other = &servers->one[i];
        int port = i == index ? other->quorum_port : proxy_port(self->to[i]);

        fprintf(file, "server.%d=127.0.0.1:%d:%d\n", i + 1, port,
                other->election_port);
    }
    fclose(file);
    snprintf(path, sizeof path, "%s/%d", servers->directory, index);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%d/myid", servers->directory, index);
    file = fopen(path, "w");
    if (file != NULL) {
        fprintf(file, "%d\n", index + 1);
        fclose(file);
    }
}

/* In the child. */
static void become_server(const struct servers *servers, int index)
{
    char config[128], log[128], reap[64];
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(config, sizeof config, "%s/%d.cfg", servers->directory, index);
    snprintf(log, sizeof log, "%s/%d.log", servers->directory, index);
    snprintf(reap, sizeof reap, "-Dznode.container.checkIntervalMs=%d",
             reap_ms);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execl(JAVA, JAVA, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
          "-Dzookeeper.fsync.warningthresholdms=60000", reap, option,
          "-Dzookeeper.forceSync=no", "-cp", JAR,
          "org.apache.zookeeper.server.quorum.QuorumPeerMain", config,
          (char *)NULL);
    _exit(127);
}

void server_start(struct servers *servers, int index)
{
    pid_t pid = fork();

    if (pid == 0) {
        become_server(servers, index);
    }
    servers->one[index].pid = pid;
}

void server_kill(struct servers *servers, int index)
{
    struct server *one = &servers->one[index];

    if (one->pid > 0) {
        kill(one->pid, SIGKILL);
        waitpid(one->pid, NULL, 0);
        one->pid = 0;
    }
}

/* What it says of itself; "" when it does not serve. */
static void ask_mode(const struct server *one, char *answer, size_t size)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)one->client_port)};
    struct timeval patience = {.tv_sec = 2};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t length = 0;
    ssize_t count = 0;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, "srvr", 4, MSG_NOSIGNAL) == 4) {
        while (length < size - 1 &&
               (count = recv(fd, answer + length, size - 1 - length, 0)) > 0) {
            length += (size_t)count;
        }
    }
    answer[length] = '\0';
    close(fd);
}

static bool is_serving(const struct server *one, const char *mode)
{
    char answer[2048];

    ask_mode(one, answer, sizeof answer);
    return strstr(answer, mode) != NULL;
}

long server_received(const struct servers *servers, int index)
{
    static const char word[] = "Received: ";
    char answer[2048];
    const char *found;

    ask_mode(&servers->one[index], answer, sizeof answer);
    found = strstr(answer, word);
    return found == NULL ? -1 : strtol(found + sizeof word - 1, NULL, 10);
}

static void pause_ms(int ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&time, NULL);
}

void server_await(const struct servers *servers, int index)
{
    for (int i = 0; i < START_PATIENCE_S * 20; i++) {
        if (is_serving(&servers->one[index], "Mode:")) {
            return;
        }
        pause_ms(50);
    }
    give_up("a server does not come up");
}

/* --- all ----------------------------------------------------------------- */

int servers_leader(const struct servers *servers)
{
    for (int i = 0; i < servers->count; i++) {
        if (servers->one[i].pid > 0 &&
            is_serving(&servers->one[i], "Mode: leader")) {
            return i;
        }
    }
    return -1;
}

void servers_start(struct servers *servers, int count)
{
    int ports[3 * SERVERS_MOST];

    memset(servers, 0, sizeof *servers);
    servers->count = count;
    snprintf(servers->directory, sizeof servers->directory,
             "/tmp/simba-zk-XXXXXX");
    if (mkdtemp(servers->directory) == NULL) {
        give_up("no directory");
    }
    find_ports(ports, 3 * count);
    for (int i = 0; i < count; i++) {
        struct server *one = &servers->one[i];
        size_t length = strlen(servers->hosts);

        one->client_port = ports[3 * i];
        one->quorum_port = ports[3 * i + 1];
        one->election_port = ports[3 * i + 2];
        snprintf(servers->hosts + length, sizeof servers->hosts - length,
                 "%s127.0.0.1:%d", i == 0 ? "" : ",", one->client_port);
    }
    for (int i = 0; count > 1 && i < count * count; i++) {
        servers->one[i / count].to[i % count] =
            proxy_open(servers->one[i % count].quorum_port);
    }
    for (int i = 0; i < count; i++) {
        write_config(servers, i);
        server_start(servers, i);
    }
    for (int i = 0; i < count; i++) {
        server_await(servers, i);
    }
}

void server_freeze(struct servers *servers, int index, bool is_frozen)
{
    for (int i = 0; i < servers->count; i++) {
        proxy_hold(servers->one[index].to[i], is_frozen, is_frozen);
        proxy_hold(servers->one[i].to[index], is_frozen, is_frozen);
    }
}

void servers_stop(struct servers *servers)
{
    char command[128];

    for (int i = 0; i < servers->count; i++) {
        server_kill(servers, i);
        for (int j = 0; j < servers->count; j++) {
            proxy_close(servers->one[i].to[j]);
        }
    }
    snprintf(command, sizeof command, "rm -rf '%s'", servers->directory);
    if (servers->directory[0] == '/' && system(command) != 0) {
        fprintf(stderr, "cannot remove %s\n", servers->directory);
    }
}

bool servers_shell(const struct servers *servers, const char *lines)
{
    char command[512];
    FILE *shell;

    snprintf(command, sizeof command,
             "exec " JAVA " -Xmx64m -XX:TieredStopAtLevel=1 -cp " JAR
             " org.apache.zookeeper.ZooKeeperMain -server %s >'%s'/shell.log"
             " 2>&1",
             servers->hosts, servers->directory);
    shell = popen(command, "w");
    if (shell == NULL) {
        return false;
    }
    fputs(lines, shell);
    return pclose(shell) == 0;
}
