/* simba serve: a live page, JSON and figures of one or more stores. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "serve/serve.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: simba serve [OPTION…] [--store URL]…\n"
    "\n"
    "Serve a page that shows, live, who owns which mutex, who waits and for\n"
    "how long, and how the stores are; the same as JSON, and figures for\n"
    "Prometheus. Nothing can be changed there, unless that is allowed.\n"
    "\n"
    "    simba serve --store redis://cache.example --store "
    "postgres://db/locks\n"
    "\n"
    "      --listen WHERE   ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH;\n"
    "                       default: 127.0.0.1:7460; port 0 is a free one\n"
    "      --auth-file FILE who may look: lines user:hash, as 'mkpasswd -m\n"
    "                       yescrypt' or 'htpasswd -B' make them\n"
    "      --auth-header NAME\n"
    "                       instead: the header in which a proxy says who it\n"
    "                       has let in. The proxy must set it itself, and\n"
    "                       nobody else may reach us: listen on unix:PATH\n"
    "      --allow-break    let these users break tenures, with a reason,\n"
    "                       which the store writes down with their name\n"
    "      --tls-cert FILE  the certificate, with its chain, in PEM\n"
    "      --tls-key FILE   its key\n"
    "      --insecure       without users or TLS where others can reach it\n"
    "      --host NAME      a further name that this server is asked by;\n"
    "                       several parted by commas. Its addresses,\n"
    "                       localhost and the host's name are known\n"
    "      --max-pages N    how many may be open at once; default: 500\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                       see 'simba --help'; --store may be repeated\n"
    "\n"
    "  /                    the page\n"
    "  /api/stores, /api/mutexes, /api/mutex?store=0&mutex=NAME\n"
    "                       JSON, as list, show and doctor print it\n"
    "  /api/events          changes, as Server-Sent Events\n"
    "  /metrics             for Prometheus\n"
    "  /healthz, /readyz    does it work; are all stores reachable\n"
    "\n"
    "It prints where it listens: with --json an object, event (listening) and\n"
    "url. A store that cannot be reached is waited for, and shown so.\n"
    "\n"
    "exit codes: 0 ended by INT or TERM; 64 usage; 69 the address cannot be\n"
    "had; 70 a fault of simba; 74 where it listens cannot be written; 77\n"
    "access denied; 78 wrong configuration or URL\n";

struct wishes {
    struct simba__listening listening;
    struct simba__access access;
    bool is_insecure;
    uint64_t pages;
};

static bool is_safe(const void *user)
{
    const struct wishes *wishes = user;
    const struct simba__access *access = &wishes->access;
    const char *listen = wishes->listening.listen;
    bool is_unix = strncmp(listen, "unix:", 5) == 0;
    bool has_users = access->auth_file != NULL || access->auth_header != NULL;

    if (!simba__http_is_address(listen)) {
        simba__say("--listen %s: write ADDRESS:PORT, [ADDRESS]:PORT for IPv6, "
                   "or unix:PATH",
                   listen);
    } else if (access->auth_file != NULL && access->auth_header != NULL) {
        simba__say("--auth-file or --auth-header: which of them tells who is "
                   "there?");
    } else if ((wishes->listening.tls_cert == NULL) !=
               (wishes->listening.tls_key == NULL)) {
        simba__say("--tls-cert and --tls-key go together");
    } else if (access->may_break && !has_users) {
        simba__say("--allow-break: it must be known who breaks a tenure, also "
                   "on this machine; add --auth-file or --auth-header");
    } else if (access->auth_header != NULL && !is_unix &&
               !wishes->is_insecure) {
        simba__say("--auth-header: whoever reaches %s can say that he is "
                   "anybody; listen on unix:PATH, which only the proxy can "
                   "open, or add --insecure",
                   listen);
    } else if (!simba__http_is_local(listen) && !has_users &&
               !wishes->is_insecure) {
        simba__say("--listen %s: others can reach it; add --auth-file, or "
                   "--insecure if they may all look",
                   listen);
    } else if (!simba__http_is_local(listen) &&
               wishes->listening.tls_cert == NULL && !wishes->is_insecure) {
        simba__say("--listen %s: passwords would pass in the clear; add "
                   "--tls-cert and --tls-key, or --insecure",
                   listen);
    } else {
        return true;
    }
    return false;
}

/* The stores that are meant, each with its own options; false: no memory. */
static bool name_stores(struct simba__board *board,
                        const struct simba__cli *cli)
{
    const char *const *urls = simba__options_stores();
    size_t count = 0;
    struct simba__cli *each;

    while (urls[count] != NULL) {
        count++;
    }
    board->count = count == 0 ? 1 : count;
    board->sources = calloc(board->count, sizeof *board->sources);
    each = calloc(board->count, sizeof *each); /* as long as the process */
    if (board->sources == NULL || each == NULL) {
        free(each);
        return false;
    }
    for (size_t i = 0; i < board->count; i++) {
        struct simba__source *source = &board->sources[i];

        each[i] = *cli;
        each[i].store = count == 0 ? cli->store : urls[i];
        source->cli = &each[i];
        source->board = board;
        source->index = i;
        simba__show_url(each[i].store, source->shown, sizeof source->shown);
        simba__calm(source->shown);
    }
    return true;
}

static bool tell_url(const struct simba__cli *cli, const char *url)
{
    struct simba__json json;

    if (cli->is_json) {
        simba__json_print(&json, stdout);
        simba__json_text(&json, "event", "listening");
        simba__json_text(&json, "url", url);
        simba__json_line(&json);
    } else {
        (void)printf("%s\n", url);
    }
    return simba__command_flush();
}

/* Signals are taken here; threads that are started later do not see them. */
static int serve(const struct simba__cli *cli, const struct wishes *wishes)
{
    static struct simba__board board = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                        .changed = PTHREAD_COND_INITIALIZER};
    char url[1100];
    sigset_t ends;
    int ended_by, code;

    (void)signal(SIGPIPE, SIG_IGN); /* a client that goes away is no news */
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &ends, NULL);
    if (!name_stores(&board, cli)) {
        simba__say("out of memory");
        return SIMBA__EXIT_FAULT;
    }
    if (!simba__access_start(&wishes->access)) {
        return SIMBA__EXIT_CONFIG;
    }
    code = simba__watch_start(&board);
    if (code != 0) {
        return code;
    }
    if (!simba__stream_start(&board, wishes->pages)) {
        simba__say("cannot start a thread");
        return SIMBA__EXIT_FAULT;
    }
    if (!simba__http_start(&board, &wishes->listening, url, sizeof url)) {
        return SIMBA__EXIT_UNAVAILABLE;
    }
    if (!tell_url(cli, url)) {
        return simba__command_end();
    }
    do {
        (void)sigwait(&ends, &ended_by);
    } while (ended_by == SIGHUP);
    if (strncmp(wishes->listening.listen, "unix:", 5) == 0) {
        (void)unlink(wishes->listening.listen + 5);
    }
    return 0;
}

static int run(int argc, char **argv)
{
    struct wishes wishes = {.listening.listen = "127.0.0.1:7460", .pages = 500};
    const struct simba__option options[] = {
        {.name = "listen", .kind = SIMBA__TEXT, .to = &wishes.listening.listen},
        {.name = "auth-file",
         .kind = SIMBA__TEXT,
         .to = &wishes.access.auth_file},
        {.name = "auth-header",
         .kind = SIMBA__TEXT,
         .to = &wishes.access.auth_header},
        {.name = "allow-break",
         .kind = SIMBA__FLAG,
         .to = &wishes.access.may_break},
        {.name = "tls-cert",
         .kind = SIMBA__TEXT,
         .to = &wishes.listening.tls_cert},
        {.name = "tls-key",
         .kind = SIMBA__TEXT,
         .to = &wishes.listening.tls_key},
        {.name = "insecure", .kind = SIMBA__FLAG, .to = &wishes.is_insecure},
        {.name = "host", .kind = SIMBA__TEXT, .to = &wishes.access.hosts},
        {.name = "max-pages",
         .kind = SIMBA__NUMBER,
         .to = &wishes.pages,
         .most = 2000},
        {.name = NULL}};
    const struct simba__command command = {.name = "serve",
                                           .help = help,
                                           .options = options,
                                           .check = is_safe,
                                           .user = &wishes};
    struct simba__words words = {.count = argc, .words = argv};
    int code;

    simba__command_begin(&words.cli);
    code = simba__command_read(&command, &words);
    return code == SIMBA__GO_ON ? serve(&words.cli, &wishes) : code;
}

int main(int argc, char **argv)
{
    _exit(run(argc, argv));
}
