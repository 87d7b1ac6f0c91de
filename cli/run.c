/* simba lock, lead and every: what they take. front.c does it. */
#define _GNU_SOURCE
#include "cli/job.h"
#include "cli/output.h"

#include <simba/contender.h>

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
/* Help of lead and every: what they share with each other, in three parts. */
#define HELP_LEAD \
    "  -w, --wait DUR      end when we did not lead for so long, or the\n" \
    "                      server is down; default: stand by for ever\n" \
    "  -n, --no-wait       end unless we lead at once\n" \
    "  -E, --conflict-exit-code N\n" \
    "                      exit code of these two; default: 75\n" \
    "  -c, --command 'shell line'\n" \
    "                      run this by /bin/sh instead of CMD\n" \
    "      --ttl DUR       the leader renews within this time; default: 10s\n" \
    "      --transition DUR\n" \
    "                      and may be so late; default: 6s. Others wait\n" \
    "                      for both when the machine of the leader dies\n" \
    "      --id ID         owner id; default: made of process and host\n"
/* Of all three of them. */
#define HELP_KILL \
    "      --kill-after DUR\n" \
    "                      from TERM to KILL when CMD must stop; default:\n" \
    "                      1.75s, less with a shorter lease. At once when\n" \
    "                      simba itself is killed\n" \
    "      --keep-secrets  leave SIMBA_*_PASSWORD in CMD's environment;\n" \
    "                      PG*, MYSQL_PWD and SIMBA_STORE always stay\n" \
    "      --tell LIST     host,pid,user,command, or some of them: shown to\n" \
    "                      who looks; with passwords, if CMD's line has any\n"
/* Of lead and every again. */
#define HELP_READY \
    "      --ready WHEN    when systemd is told that the service is ready:\n" \
    "                      leading (default) or standby\n" \
    "      --metrics-file FILE\n" \
    "                      keep figures there, for Prometheus\n" \
    "      --store URL, --json, -v, -q, --help\n" \
    "                      see 'simba --help'; events of --json go to\n" \
    "                      stderr, for stdout is CMD's\n"
/* And their end. */
#define HELP_EXITS \
    "exit codes: CMD's own, or 128 + n when signal n ended it; 128 + n when\n" \
    "signal n ended simba while no CMD ran; 126, 127 CMD cannot be run, is\n" \
    "not found; 64 usage; 69 store unreachable; 70 a fault of simba; 75 not\n" \
    "leading within --wait; 76 simba's guardian was killed or stuck, and\n" \
    "CMD was stopped; 77 access denied; 78 wrong configuration, URL or name\n"
/* clang-format on */

static const char lock_help[] =
    "usage: simba lock NAME [OPTION…] [--] CMD [ARG…]\n"
    "       simba lock NAME [OPTION…] -c 'shell line'\n"
    "\n"
    "Run CMD while holding the mutex NAME, and answer with its exit code.\n"
    "\n"
    "  -w, --wait DUR      wait so long for the mutex, and for a server that\n"
    "                      is down; default: for ever\n"
    "  -n, --no-wait       do not wait\n"
    "  -E, --conflict-exit-code N\n"
    "                      exit code when it was not acquired; default: 75\n"
    "  -c, --command 'shell line'\n"
    "                      run this by /bin/sh instead of CMD\n"
    "      --ttl DUR       the owner renews within this time; default: 10s\n"
    "      --transition DUR\n"
    "                      and may be so late; default: 6s. Others wait for\n"
    "                      both when the machine of the owner dies\n"
    "      --id ID         owner id; default: made of process and host\n"
    "      --slots N       let N hold it at a time; CMD sees which of them it\n"
    "                      is, from 0, as SIMBA_SLOT\n"
    "  -s, --shared        hold it together with any number who share it\n"
    "  -x, --exclusive     hold it alone (default)\n"
    "      --max-hold DUR  hold no longer: CMD is stopped\n"
    "      --min-hold DUR  hold no shorter, even when CMD ends early; a "
    "signal\n"
    "                      is told so, and a second one ends simba\n" HELP_KILL
    "      --metrics-file FILE\n"
    "                      leave figures of this run there, for Prometheus\n"
    "      --store URL, --json, -v, -q, --help\n"
    "                      see 'simba --help'; events of --json go to stderr,\n"
    "                      for stdout is CMD's\n"
    "\n"
    "DUR is 250ms, 1.5s, 5m or 1h. NAME has at most 66 characters and does\n"
    "not begin with '}'; ID has at most 128 bytes, no '@@' and no '@' last.\n"
    "\n"
    "CMD sees SIMBA_MUTEX, SIMBA_TOKEN and SIMBA_OWNER_ID, has the terminal,\n"
    "and gets every signal that simba gets. When the mutex is lost, CMD and\n"
    "all its descendants are stopped before another can get it. When CMD\n"
    "ends, what it left running gets TERM, and KILL after --kill-after, and\n"
    "then the mutex is released: run daemons in the foreground. Ctrl-Z stops\n"
    "CMD, but the mutex is kept, for --max-hold at most; 'fg' goes on.\n"
    "A lock of NAME within CMD would wait for itself, and ends with 75,\n"
    "unless both share it. But two that each hold a slot and lock NAME again\n"
    "within CMD, or two that hold a and b and lock the other within, may wait\n"
    "for each other for ever: give the inner lock -w.\n"
    "\n"
    "examples:\n"
    "    simba lock nightly-report --wait 30s -- ./report.sh --all\n"
    "    # cron, on many hosts: one runs it, the others say nothing\n"
    "    simba -q lock backup -n -E 0 --min-hold 1m -- ./backup.sh\n"
    "\n"
    "exit codes: CMD's own, or 128 + n when signal n ended it; 126, 127 CMD\n"
    "cannot be run, is not found; 64 usage; 69 store unreachable; 70 a fault\n"
    "of simba; 75 not acquired; 76 lost while CMD ran; 77 access denied;\n"
    "78 wrong configuration, URL or name\n";

static const char lead_help[] =
    "usage: simba lead NAME [OPTION…] [--] CMD [ARG…]\n"
    "       simba lead NAME [OPTION…] -c 'shell line'\n"
    "\n"
    "Run CMD on the one host that leads, that is, owns the mutex NAME; on the\n"
    "others simba stands by. When this host does not lead any more, CMD and\n"
    "all its descendants are stopped before another can lead; simba stands\n"
    "by, and starts CMD again when it leads again. When CMD ends by itself,\n"
    "so does simba, with its exit code, and another host leads, unless\n"
    "--restart says otherwise. Both ends of leading are told on stderr.\n"
    "\n"
    "      --restart WHEN  when CMD ends by itself while we lead:\n"
    "                      never: simba ends too, with its exit code\n"
    "                      (default); on-failure: unless that is 0, CMD is\n"
    "                      started again; always: it is started again. After\n"
    "                      1 s at first, 60 s at most; leadership is kept\n"
    "                      meanwhile\n" HELP_LEAD
    "      --slots N       let N hosts lead at a time; CMD sees which of them\n"
    "                      this is, from 0, as SIMBA_SLOT\n"
    "  -s, --shared        lead together with any number who share it\n"
    "  -x, --exclusive     lead alone (default)\n"
    "      --max-hold DUR  lead no longer at a stretch: CMD is stopped, and\n"
    "                      we stand at the end of the queue\n"
    "      --min-hold DUR  lead no shorter, even when CMD ends "
    "early\n" HELP_KILL HELP_READY "\n"
    "DUR is 250ms, 1.5s, 5m or 1h. NAME has at most 66 characters and does\n"
    "not begin with '}'; ID has at most 128 bytes, no '@@' and no '@' last.\n"
    "\n"
    "CMD sees SIMBA_MUTEX, SIMBA_TOKEN and SIMBA_OWNER_ID. It stays in the\n"
    "foreground: what it leaves running when it ends gets TERM, and KILL "
    "after\n"
    "--kill-after. Signals are passed on to CMD. After INT, QUIT or TERM, or\n"
    "when CMD dies of a signal that was passed on, it is not started again.\n"
    "USR1 is for simba: if somebody waits, CMD is stopped, that one leads, "
    "and\n"
    "we stand at the end of the queue; 'simba hand-over' asks for the same.\n"
    "While no CMD runs, these three end simba, and so does HUP if there is a\n"
    "terminal; others are dropped.\n"
    "\n"
    "Under systemd (Type=notify) simba tells READY, STATUS and STOPPING, and\n"
    "feeds the watchdog while its guardian is well.\n"
    "\n"
    "examples:\n"
    "    simba lead billing --kill-after 1s -- ./billing-worker\n"
    "    simba lead web --restart on-failure -- ./serve --port 80\n"
    "\n" HELP_EXITS;

static const char every_help[] =
    "usage: simba every PERIOD NAME [OPTION…] [--] CMD [ARG…]\n"
    "       simba every PERIOD NAME [OPTION…] -c 'shell line'\n"
    "\n"
    "Run CMD again and again on the one host that leads, that is, owns the\n"
    "mutex NAME. Two runs never overlap, not on two hosts either. When this\n"
    "host does not lead any more, CMD and all its descendants are stopped\n"
    "before another can lead, and simba stands by. Both ends of leading are\n"
    "told on stderr.\n"
    "\n"
    "      --rate          at multiples of PERIOD of the store's clock, so\n"
    "                      that a change of leader keeps the beat (SQLite\n"
    "                      counts from boot, not from midnight); a run that\n"
    "                      is due while CMD still runs is skipped (default)\n"
    "      --delay         PERIOD after the end of the run before\n"
    "      --initial-delay DUR\n"
    "                      no run so long after we began to "
    "lead\n" HELP_LEAD
    "      --max-hold DUR  lead no longer at a stretch: another has its "
    "turn\n" HELP_KILL HELP_READY "\n"
    "DUR and PERIOD are 250ms, 1.5s, 5m or 1h. NAME has at most 66 characters\n"
    "and no '}' first; ID has at most 128 bytes, no '@@' and no '@' last.\n"
    "\n"
    "CMD sees SIMBA_MUTEX, SIMBA_TOKEN and SIMBA_OWNER_ID; what it leaves\n"
    "running gets TERM, and KILL after --kill-after. When CMD fails that is\n"
    "told, and the schedule is kept. A beat that came while nobody led is not\n"
    "made up for. With --json each run is logged as 'started' and 'ended',\n"
    "for 'simba verify'.\n"
    "\n"
    "simba runs until INT, QUIT or TERM ends it, or HUP if there is a\n"
    "terminal; while CMD runs it gets the signal, and its end is simba's.\n"
    "\n"
    "Under systemd (Type=notify) simba tells READY, STATUS and STOPPING, and\n"
    "feeds the watchdog while its guardian is well.\n"
    "\n"
    "examples:\n"
    "    simba every 5m cleanup -- ./cleanup.sh\n"
    "    simba every 10s poll --delay --initial-delay 1m -- ./poll.sh\n"
    "\n" HELP_EXITS;

enum {
    LOCK = 1 << SIMBA__JOB_LOCK,
    LEAD = 1 << SIMBA__JOB_LEAD,
    EVERY = 1 << SIMBA__JOB_EVERY,
    ALL = LOCK | LEAD | EVERY
};

enum { OPTIONS_MOST = 24 };

/* What reading has found. */
struct reading {
    struct simba__command command;
    struct simba__option options[OPTIONS_MOST];
    struct simba__words words;
    struct simba__job job;
    char *line;                    /* of -c; NULL: none */
    const char *told;              /* of --tell; NULL: nothing */
    bool is_patient, is_impatient; /* -w, -n */
    bool is_slotted, is_shared, is_exclusive;
    uint64_t slots;
    bool is_rate;
    int restart, ready;
    bool is_closed; /* by "--": no options any more */
};

/* The options of this kind of job, and where their values go. */
static void list_options(struct reading *r)
{
    static const char *const restarts[] = {"never", "on-failure", "always",
                                           NULL};
    static const char *const readies[] = {"leading", "standby", NULL};
    struct simba__job *job = &r->job;
    const struct {
        unsigned kinds;
        struct simba__option option;
    } all[] = {
        {ALL,
         {"wait", 'w', SIMBA__DURATION, .to = &job->wait_ms,
          .is_given = &r->is_patient}},
        {ALL, {"no-wait", 'n', SIMBA__FLAG, .to = &r->is_impatient}},
        {ALL,
         {"conflict-exit-code", 'E', SIMBA__CODE, .to = &job->conflict_code}},
        {ALL, {"command", 'c', SIMBA__TEXT, .to = &r->line}},
        {ALL, {"ttl", 0, SIMBA__DURATION, .to = &job->ttl_ms, .least_ms = 1}},
        {ALL, {"transition", 0, SIMBA__DURATION, .to = &job->transition_ms}},
        {ALL, {"id", 0, SIMBA__TEXT, .to = &job->id}},
        {ALL, {"max-hold", 0, SIMBA__DURATION, .to = &job->max_hold_ms}},
        {ALL, {"kill-after", 0, SIMBA__DURATION, .to = &job->kill_after_ms}},
        {ALL, {"keep-secrets", 0, SIMBA__FLAG, .to = &job->keeps_secrets}},
        {ALL, {"metrics-file", 0, SIMBA__TEXT, .to = &job->metrics_file}},
        {ALL, {"tell", 0, SIMBA__TEXT, .to = &r->told}},
        {LOCK | LEAD,
         {"min-hold", 0, SIMBA__DURATION, .to = &job->min_hold_ms}},
        {LOCK | LEAD,
         {"slots", 0, SIMBA__NUMBER, .to = &r->slots, .most = UINT32_MAX - 1,
          .is_given = &r->is_slotted}},
        {LOCK | LEAD, {"shared", 's', SIMBA__FLAG, .to = &r->is_shared}},
        {LOCK | LEAD, {"exclusive", 'x', SIMBA__FLAG, .to = &r->is_exclusive}},
        {LEAD,
         {"restart", 0, SIMBA__WORD, .to = &r->restart, .words = restarts}},
        {LEAD | EVERY,
         {"ready", 0, SIMBA__WORD, .to = &r->ready, .words = readies}},
        {EVERY, {"rate", 0, SIMBA__FLAG, .to = &r->is_rate}},
        {EVERY, {"delay", 0, SIMBA__FLAG, .to = &job->is_delay}},
        {EVERY,
         {"initial-delay", 0, SIMBA__DURATION, .to = &job->initial_delay_ms}},
    };
    size_t count = 0;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if ((all[i].kinds >> job->kind & 1) != 0) {
            assert(count < OPTIONS_MOST - 1);
            r->options[count++] = all[i].option;
        }
    }
    r->command.options = r->options;
}

/* A word that must be there; options may stand before it. */
static int take_word(struct reading *r, const char *what, char **word)
{
    const char *name = r->command.name;
    int code = r->is_closed ? SIMBA__GO_ON
                            : simba__options_read(&r->command, &r->words, true);

    if (code == SIMBA__GO_ON && optind == r->words.count) {
        simba__say("%s needs %s; see 'simba %s --help'", name, what, name);
        code = SIMBA__EXIT_USAGE;
    }
    if (code == SIMBA__GO_ON) {
        r->is_closed =
            r->is_closed || strcmp(r->words.words[optind - 1], "--") == 0;
        *word = r->words.words[optind++];
    }
    return code;
}

/* Options may stand before NAME and after it; the first word after those is
 * CMD, whose options are its own. */
static int read_words(struct reading *r)
{
    const struct simba__option period = {
        .kind = SIMBA__DURATION, .to = &r->job.period_ms, .least_ms = 1};
    char *word = NULL;
    int code = SIMBA__GO_ON;

    optind = 1;
    if (r->job.kind == SIMBA__JOB_EVERY) {
        code = take_word(r, "a PERIOD, such as 10s", &word);
        if (code == SIMBA__GO_ON &&
            !simba__options_take(&period, "PERIOD", word)) {
            code = SIMBA__EXIT_USAGE;
        }
    }
    if (code == SIMBA__GO_ON) {
        code = take_word(r, "the NAME of a mutex", &word);
        r->job.mutex = word;
    }
    if (r->is_closed && optind < r->words.count &&
        strcmp(r->words.words[optind], "--") == 0) {
        optind++; /* one before NAME, one before CMD: no CMD is called so */
    }
    return code == SIMBA__GO_ON && !r->is_closed
               ? simba__options_read(&r->command, &r->words, true)
               : code;
}

/* False after telling which options cannot both be meant, or that there is no
 * command to run. */
static bool is_consistent(const struct reading *r, bool has_words)
{
    const char *name = r->command.name;

    if (r->is_patient && r->is_impatient) {
        simba__say("%s: -n does not wait, -w does: give one of them", name);
    } else if (r->is_slotted + r->is_shared + r->is_exclusive > 1) {
        simba__say("%s: --slots, -s and -x each say how many hold it: give one "
                   "of them",
                   name);
    } else if (r->is_rate && r->job.is_delay) {
        simba__say("%s: --rate keeps the beat of the clock, --delay that of "
                   "CMD: give one of them",
                   name);
    } else if (r->job.max_hold_ms > 0 &&
               r->job.min_hold_ms > r->job.max_hold_ms) {
        simba__say("--min-hold is longer than --max-hold: make one of them "
                   "longer or shorter");
    } else if (r->line != NULL && has_words) {
        simba__say("%s runs either CMD or the line of -c: give one of them",
                   name);
    } else if (r->line == NULL && !has_words) {
        simba__say("%s needs a command to run, either CMD or -c; see 'simba "
                   "%s --help'",
                   name, name);
    } else {
        return true;
    }
    return false;
}

/* False after telling which word is none. */
static bool read_tell(const char *list, uint32_t *tell)
{
    static const char *const names[] = {"host", "pid", "user", "command"};
    static const uint32_t bits[] = {SIMBA_TELL_HOST, SIMBA_TELL_PID,
                                    SIMBA_TELL_USER, SIMBA_TELL_COMMAND};

    for (; list != NULL; list = *list == ',' ? list + 1 : NULL) {
        size_t length = strcspn(list, ","), i = 0;

        while (i < 4 && (strlen(names[i]) != length ||
                         strncmp(list, names[i], length) != 0)) {
            i++;
        }
        if (i == 4) {
            simba__say("--tell %.*s: write some of host,pid,user,command",
                       (int)(length < 64 ? length : 64), list);
            return false;
        }
        *tell |= bits[i];
        list += length;
    }
    return true;
}

/* The words as one, for those who look; NULL: no memory. */
static char *join(char **words)
{
    struct simba__text text = {0};

    for (size_t i = 0; words[i] != NULL; i++) {
        simba__text_put(&text, i == 0 ? "" : " ");
        simba__text_put(&text, words[i]);
    }
    return simba__text_take(&text);
}

int simba__cmd_run(struct simba__words *words)
{
    static const char *const helps[] = {lock_help, lead_help, every_help};
    static char shell[] = "/bin/sh", flag[] = "-c";
    const char *name = words->words[0];
    enum simba__job_kind kind = strcmp(name, "lock") == 0   ? SIMBA__JOB_LOCK
                                : strcmp(name, "lead") == 0 ? SIMBA__JOB_LEAD
                                                            : SIMBA__JOB_EVERY;
    struct reading r = {.command = {.name = name},
                        .words = *words,
                        .job = {.kind = kind,
                                .wait_ms = -1,
                                .transition_ms = -1,
                                .kill_after_ms = -1,
                                .conflict_code = SIMBA__EXIT_NOT_ACQUIRED,
                                .tty = -1}};
    char *line[] = {shell, flag, NULL, NULL};
    int code;

    list_options(&r);
    code = read_words(&r);
    if (code == SIMBA__HELP) {
        (void)fputs(helps[kind], stdout);
        return simba__command_end();
    }
    if (code != SIMBA__GO_ON) {
        return code;
    }
    if (!is_consistent(&r, optind < words->count) ||
        !read_tell(r.told, &r.job.tell)) {
        return SIMBA__EXIT_USAGE;
    }
    line[2] = r.line;
    r.job.cli = r.words.cli;
    r.job.argv = r.line != NULL ? line : words->words + optind;
    if ((r.job.tell & SIMBA_TELL_COMMAND) != 0) {
        r.job.command = join(r.line != NULL ? line + 2 : r.job.argv);
    }
    r.job.slots = r.is_shared ? UINT32_MAX : (uint32_t)r.slots;
    r.job.wait_ms = r.is_impatient ? 0 : r.job.wait_ms;
    r.job.restart = (enum simba__restart)r.restart;
    r.job.is_ready_early = r.ready == 1;
    code = simba__front_run(&r.job);
    free(r.job.command);
    return code;
}
