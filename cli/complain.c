/* What is wrong with an option; see opt.h. */
#define _GNU_SOURCE
#include "guess.h"
#include "opt.h"
#include "say.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 32, ROOM = 256 };

/* What getopt_long() choked on. Only the name: what follows = may be a URL with
 * a password. */
struct wrong {
    const char *command;
    const char *dashes;
    char name[LONGEST]; /* without them */
};

static void say_wrong(const struct wrong *wrong, const char *what)
{
    simba__say("option %s%s %s; see 'simba%s%s --help'", wrong->dashes,
               wrong->name, what, *wrong->command == '\0' ? "" : " ",
               wrong->command);
}

/* Those that begin so, as a sentence lists them; how many there are. */
static int list_longer(const char *name,
                       const struct option *options,
                       char text[ROOM])
{
    int count = 0;

    text[0] = '\0';
    for (; options->name != NULL; options++) {
        size_t length = strlen(text);

        if (strncmp(options->name, name, strlen(name)) == 0) {
            (void)snprintf(text + length, ROOM - length, "%s--%s",
                           count++ == 0 ? "" : " or ", options->name);
        }
    }
    return count;
}

/* flock(1) has its own words for some. */
static const char *word_for(const char *name)
{
    static const char *const words[][2] = {
        {"nb", "no-wait"}, {"nonblock", "no-wait"}, {"timeout", "wait"}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(name, words[i][0]) == 0) {
            return words[i][1];
        }
    }
    return name;
}

static const char *find_near(const char *given, const struct option *options)
{
    const char *name = word_for(given);

    for (; options->name != NULL; options++) {
        if (simba__guess_is_near(name, options->name)) {
            return options->name;
        }
    }
    return NULL;
}

static void say_unknown(const struct wrong *wrong, const struct option *options)
{
    char several[ROOM], what[ROOM + LONGEST] = "is unknown";
    const char *near = find_near(wrong->name, options);

    if (list_longer(wrong->name, options, several) > 1) {
        (void)snprintf(what, sizeof(what), "is short for %s", several);
    } else if (near != NULL) {
        simba__say("there is no option --%s; did you mean --%s?", wrong->name,
                   near);
        return;
    }
    say_wrong(wrong, what);
}

/* Of a long option that is known optopt is the value, of an unknown one 0. Else
 * it is a letter, and the word may be the one before, as in "--no-wait -xn". */
static bool is_long(const char *word, const struct option *options)
{
    size_t length = strcspn(word, "=");

    if (strncmp(word, "--", 2) != 0 || optopt == 0) {
        return optopt == 0;
    }
    for (; options->name != NULL; options++) {
        if (options->val == optopt &&
            strncmp(options->name, word + 2, length - 2) == 0) {
            return true;
        }
    }
    return false;
}

/* optopt is but the first byte of a letter that has several; the others are in
 * the word, which getopt_long() has left only if it was the last in it. */
static void name_letter(struct wrong *wrong, char **argv)
{
    const char *next = argv[optind] == NULL ? "" : argv[optind];
    const char *at = next[0] == '-' ? strchr(next, optopt) : NULL;
    size_t length = 1;

    at = at == NULL ? strchr(argv[optind - 1], optopt) : at;
    wrong->name[0] = (char)optopt;
    while (at != NULL && ((unsigned char)at[length] & 0xc0) == 0x80 &&
           length + 1 < sizeof(wrong->name)) {
        wrong->name[length] = at[length];
        length++;
    }
}

void simba__opt_complain(const char *command,
                         const struct option *options,
                         int choice,
                         char **argv)
{
    const char *word = argv[optind - 1];
    bool has_word = is_long(word, options);
    struct wrong wrong = {command, has_word ? "--" : "-", ""};

    if (has_word) {
        (void)snprintf(wrong.name, sizeof(wrong.name), "%.*s",
                       (int)strcspn(word + 2, "="), word + 2);
    } else {
        name_letter(&wrong, argv);
    }
    if (choice == ':') {
        say_wrong(&wrong, "needs a value");
    } else if (!has_word) {
        say_wrong(&wrong, "is unknown");
    } else if (optopt != 0) {
        say_wrong(&wrong, "takes no value");
    } else {
        say_unknown(&wrong, options);
    }
}
