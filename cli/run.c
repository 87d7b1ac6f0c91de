/* Reading the command line of lock, lead and every; then front.c. */
#define _GNU_SOURCE
#include "run.h"
#include "command.h"
#include "exit.h"
#include "say.h"
#include "times.h"

#include <stdio.h>
#include <string.h>

/* What parsing has found. */
struct parsed {
    const struct simba__run_command *command;
    struct simba__job job;
    char *line[4]; /* for -c */
    bool has_line;
    bool is_patient, is_impatient; /* -w, -n */
    bool is_rate;                  /* --rate */
    bool is_help;
    bool is_closed; /* by "--": no options any more */
};

/* 0 would mean the default to the library. */
static bool take_ttl(struct simba__job *job, const char *text)
{
    if (!simba__opt_duration("--ttl", text, &job->ttl_ms)) {
        return false;
    }
    if (job->ttl_ms == 0) {
        simba__say("--ttl: a lease must last longer than '%s'", text);
        return false;
    }
    return true;
}

static bool take_duration(struct simba__job *job, int choice, const char *text)
{
    switch (choice) {
    case SIMBA__RUN_TTL:
        return take_ttl(job, text);
    case SIMBA__RUN_TRANSITION:
        return simba__opt_duration("--transition", text, &job->transition_ms);
    case SIMBA__RUN_MAX_HOLD:
        return simba__opt_duration("--max-hold", text, &job->max_hold_ms);
    case SIMBA__RUN_MIN_HOLD:
        return simba__opt_duration("--min-hold", text, &job->min_hold_ms);
    case SIMBA__RUN_INITIAL_DELAY:
        return simba__opt_duration("--initial-delay", text,
                                   &job->initial_delay_ms);
    default:
        return simba__opt_duration("--kill-after", text, &job->kill_after_ms);
    }
}

static void take_line(struct parsed *parsed, char *line)
{
    static char shell[] = "/bin/sh";
    static char flag[] = "-c";

    parsed->line[0] = shell;
    parsed->line[1] = flag;
    parsed->line[2] = line;
    parsed->line[3] = NULL;
    parsed->has_line = true;
}

static void complain_of_word(const char *option,
                             const char *text,
                             const char *const *words)
{
    char all[128] = "";

    for (size_t i = 0; words[i] != NULL; i++) {
        size_t length = strlen(all);

        (void)snprintf(all + length, sizeof(all) - length, "%s%s",
                       i == 0                 ? ""
                       : words[i + 1] == NULL ? " or "
                                              : ", ",
                       words[i]);
    }
    simba__say("%s: '%s' is none of its values: write %s", option, text, all);
}

/* One of some words. */
static bool take_word(const char *option,
                      const char *text,
                      const char *const *words,
                      int *chosen)
{
    for (*chosen = 0; words[*chosen] != NULL; ++*chosen) {
        if (strcmp(text, words[*chosen]) == 0) {
            return true;
        }
    }
    complain_of_word(option, text, words);
    return false;
}

static bool take_restart(struct simba__job *job, const char *text)
{
    static const char *const words[] = {"never", "on-failure", "always", NULL};
    int chosen;
    bool is_fine = take_word("--restart", text, words, &chosen);

    job->restart = is_fine ? (enum simba__restart)chosen : job->restart;
    return is_fine;
}

static bool take_ready(struct simba__job *job, const char *text)
{
    static const char *const words[] = {"leading", "standby", NULL};
    int chosen;
    bool is_fine = take_word("--ready", text, words, &chosen);

    job->is_ready_early = chosen == 1;
    return is_fine;
}

/* Those that are no plain duration. False when it is none of them. */
static bool take_own(struct parsed *parsed, int choice, bool *is_fine)
{
    struct simba__job *job = &parsed->job;

    *is_fine = true;
    switch (choice) {
    case 'n':
        parsed->is_impatient = true;
        job->wait_ms = 0;
        return true;
    case 'w':
        parsed->is_patient = true;
        *is_fine = simba__opt_duration("--wait", optarg, &job->wait_ms);
        return true;
    case 'E':
        *is_fine = simba__opt_exit_code("-E", optarg, &job->conflict_code);
        return true;
    case 'c':
        take_line(parsed, optarg);
        return true;
    case SIMBA__RUN_ID:
        job->id = optarg;
        return true;
    case SIMBA__RUN_METRICS_FILE:
        job->metrics_file = optarg;
        return true;
    case SIMBA__RUN_RESTART:
        *is_fine = take_restart(job, optarg);
        return true;
    case SIMBA__RUN_READY:
        *is_fine = take_ready(job, optarg);
        return true;
    case SIMBA__RUN_RATE:
        parsed->is_rate = true;
        return true;
    case SIMBA__RUN_DELAY:
        job->is_delay = true;
        return true;
    default:
        return false;
    }
}

/* False after telling what is wrong. */
static bool take_option(struct parsed *parsed, int choice, char **argv)
{
    bool is_fine;

    switch (choice) {
    case 'h':
        parsed->is_help = true;
        return true;
    case '?':
    case ':':
        simba__opt_complain(parsed->command->name, parsed->command->options,
                            choice, argv);
        return false;
    default:
        if (take_own(parsed, choice, &is_fine)) {
            return is_fine;
        }
        return simba__opt_take_shared(&parsed->job.cli, choice, optarg) ||
               take_duration(&parsed->job, choice, optarg);
    }
}

/* Options up to the first word that is none, or up to "--". */
static bool take_options(struct parsed *parsed, int argc, char **argv)
{
    int choice;

    while (
        !parsed->is_help &&
        (choice = getopt_long(argc, argv, "+:w:nE:c:" SIMBA__OPT_SHARED_SHORT,
                              parsed->command->options, NULL)) != -1) {
        if (!take_option(parsed, choice, argv)) {
            return false;
        }
    }
    return true;
}

/* A word that must be there; options may stand before it. */
static char *take_word_of(struct parsed *parsed,
                          int argc,
                          char **argv,
                          const char *what)
{
    const char *name = parsed->command->name;

    if (!parsed->is_closed && !take_options(parsed, argc, argv)) {
        return NULL;
    }
    if (optind == argc && !parsed->is_help) {
        simba__say("%s needs %s; see 'simba %s --help'", name, what, name);
    }
    if (optind == argc || parsed->is_help) {
        return NULL;
    }
    parsed->is_closed =
        parsed->is_closed || strcmp(argv[optind - 1], "--") == 0;
    return argv[optind++];
}

static bool take_period(struct parsed *parsed, const char *text)
{
    if (!simba__opt_duration("PERIOD", text, &parsed->job.period_ms)) {
        return false;
    }
    if (parsed->job.period_ms == 0) {
        simba__say("PERIOD: it must be longer than '%s'", text);
        return false;
    }
    return true;
}

static bool take_words(struct parsed *parsed, int argc, char **argv)
{
    const char *period;

    if (parsed->command->kind == SIMBA__JOB_EVERY) {
        period = take_word_of(parsed, argc, argv, "a PERIOD, such as 10s");
        if (period == NULL || !take_period(parsed, period)) {
            return false;
        }
    }
    parsed->job.mutex = take_word_of(parsed, argc, argv, "the NAME of a mutex");
    if (parsed->is_closed && optind < argc && strcmp(argv[optind], "--") == 0) {
        optind++; /* one before NAME, one before CMD: no CMD is called so */
    }
    return parsed->job.mutex != NULL &&
           (parsed->is_closed || take_options(parsed, argc, argv));
}

/* True after telling which options cannot both be meant. */
static bool is_contradicted(const struct parsed *parsed, const char *name)
{
    if (parsed->is_patient && parsed->is_impatient) {
        simba__say("%s: -n does not wait, -w does: give one of them", name);
        return true;
    }
    if (parsed->is_rate && parsed->job.is_delay) {
        simba__say("%s: --rate keeps the beat of the clock, --delay that of "
                   "CMD: give one of them",
                   name);
        return true;
    }
    return !simba__times_agree(&parsed->job);
}

/* False after telling that there is no command to run, or that there are two.
 */
static bool has_one_command(const struct parsed *parsed, bool has_words)
{
    const char *name = parsed->command->name;

    if (parsed->has_line && has_words) {
        simba__say("%s runs either CMD or the line of -c: give one of them",
                   name);
    } else if (!parsed->has_line && !has_words) {
        simba__say("%s needs a command to run, either CMD or -c; see 'simba "
                   "%s --help'",
                   name, name);
    }
    return parsed->has_line != has_words;
}

/* Options may stand before NAME and after it; the first word after those is
 * CMD, whose options are its own. */
static bool parse(struct parsed *parsed, int argc, char **argv)
{
    opterr = 0;
    optind = 1;
    if (!take_words(parsed, argc, argv) || parsed->is_help) {
        return parsed->is_help;
    }
    if (is_contradicted(parsed, parsed->command->name) ||
        !has_one_command(parsed, optind < argc)) {
        return false;
    }
    parsed->job.argv = parsed->has_line ? parsed->line : argv + optind;
    return true;
}

int simba__run(const struct simba__run_command *command,
               const struct simba__cli *cli,
               int argc,
               char **argv)
{
    struct parsed parsed = {.command = command,
                            .job = {.kind = command->kind,
                                    .cli = *cli,
                                    .wait_ms = -1,
                                    .transition_ms = -1,
                                    .kill_after_ms = -1,
                                    .conflict_code = SIMBA__EXIT_NOT_ACQUIRED,
                                    .tty = -1}};

    if (!parse(&parsed, argc, argv)) {
        return SIMBA__EXIT_USAGE;
    }
    if (parsed.is_help) {
        (void)fputs(command->help, stdout);
        return simba__command_end();
    }
    return simba__front_run(&parsed.job);
}
