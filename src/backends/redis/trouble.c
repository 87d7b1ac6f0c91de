/* What Redis says when it refuses; see trouble.h. */
#include "backends/redis/trouble.h"

#include <stdbool.h>
#include <string.h>

struct entry {
    const char *mark;
    struct simba__redis_trouble trouble;
};

/* Only what was refused before it began: these codes say "no effect". */
static const struct entry entries[] = {
    {"NOSCRIPT", {SIMBA__REDIS_SEND_SCRIPT, SIMBA_EUNAVAIL, "lost its script"}},
    {"MOVED", {SIMBA__REDIS_MOVED, SIMBA_EUNAVAIL, "the slot has moved"}},
    {"ASK", {SIMBA__REDIS_ASK, SIMBA_EUNAVAIL, "the slot is moving"}},
    {"TRYAGAIN", {SIMBA__REDIS_AGAIN, SIMBA_EUNAVAIL, "the slot is moving"}},
    {"CLUSTERDOWN",
     {SIMBA__REDIS_AGAIN, SIMBA_EUNAVAIL, "the cluster is down"}},
    {"CROSSSLOT",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "keys are in different slots"}},
    {"LOADING", {SIMBA__REDIS_AGAIN, SIMBA_EUNAVAIL, "still loading its data"}},
    {"READONLY",
     {SIMBA__REDIS_REMAKE, SIMBA_EUNAVAIL, "is a replica and takes no writes"}},
    {"MASTERDOWN",
     {SIMBA__REDIS_REMAKE, SIMBA_EUNAVAIL, "a replica without its master"}},
    {"UNBLOCKED", {SIMBA__REDIS_REMAKE, SIMBA_EUNAVAIL, "changed its role"}},
    {"OOM",
     {SIMBA__REDIS_NONE, SIMBA_EUNAVAIL, "is out of memory (maxmemory)"}},
    {"BUSY", {SIMBA__REDIS_AGAIN, SIMBA_EUNAVAIL, "is busy with a script"}},
    {"MISCONF",
     {SIMBA__REDIS_NONE, SIMBA_EUNAVAIL, "cannot write to its disk"}},
    {"NOREPLICAS",
     {SIMBA__REDIS_NONE, SIMBA_EUNAVAIL, "has too few good replicas"}},
    {"NOPERM",
     {SIMBA__REDIS_NONE, SIMBA_EDENIED, "this user lacks a permission"}},
    {"NOAUTH", {SIMBA__REDIS_NONE, SIMBA_EDENIED, "wants a password"}},
    {"WRONGPASS", {SIMBA__REDIS_NONE, SIMBA_EDENIED, "wrong user or password"}},
    {"DENIED", {SIMBA__REDIS_NONE, SIMBA_EDENIED, "refuses this client"}},
    {"WRONGTYPE",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG,
      "a key of this mutex holds something else"}},
};

/* Texts that have no word of their own in front. */
static const struct entry phrases[] = {
    {"invalid password", {SIMBA__REDIS_NONE, SIMBA_EDENIED, "wrong password"}},
    {"without any password",
     {SIMBA__REDIS_NONE, SIMBA_EDENIED, "takes no password"}},
    {"user executing the script",
     {SIMBA__REDIS_NONE, SIMBA_EDENIED, "this user lacks a permission"}},
    {"ACL failure in script",
     {SIMBA__REDIS_NONE, SIMBA_EDENIED, "this user lacks a permission"}},
    {"DB index", {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "has no such database"}},
    {"invalid DB",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "has no such database"}},
    {"cluster support disabled",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "is not a cluster"}},
    {"max number of clients",
     {SIMBA__REDIS_NONE, SIMBA_EUNAVAIL, "has too many clients"}},
    {"unknown command",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "lacks a command (too old?)"}},
    {"Unknown Redis command",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "lacks a command (too old?)"}},
    {"Unknown command",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "lacks a command (too old?)"}},
    {"syntax error",
     {SIMBA__REDIS_NONE, SIMBA_EMISCONFIG, "too old: 6.2 is needed"}},
};

/* Redis 6 puts before what a script ran into that it was a script, and where:
 * "ERR Error running script (call to f_..): @user_script:1: -OOM ...", and the
 * place twice when it is the refusal of a command. */
static const char *without_place(const char *text)
{
    static const char position[] = "@user_script:";
    const char *found = strncmp(text, "ERR Error running script", 24) == 0
                            ? strstr(text, position)
                            : NULL;

    while (found != NULL) {
        const char *end = strstr(found + sizeof position - 1, ": ");

        if (end == NULL) {
            break;
        }
        text = end + 2;
        found = strstr(text, position) == text ? text : NULL;
    }
    return text[0] == '-' ? text + 1 : text;
}

static bool is_marked(const char *text, const char *mark)
{
    size_t length = strlen(mark);

    return strncmp(text, mark, length) == 0 &&
           (text[length] == ' ' || text[length] == '\0');
}

struct simba__redis_trouble simba__redis_understand(const char *text)
{
    text = without_place(text);
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        if (is_marked(text, entries[i].mark)) {
            return entries[i].trouble;
        }
    }
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        if (strstr(text, phrases[i].mark) != NULL) {
            return phrases[i].trouble;
        }
    }
    /* A script may have failed halfway. */
    return (struct simba__redis_trouble){SIMBA__REDIS_NONE, SIMBA_EUNKNOWN,
                                         "failed"};
}

int simba__redis_explain(simba_error *error,
                         const char *shown,
                         const char *text)
{
    struct simba__redis_trouble trouble = simba__redis_understand(text);

    return simba_error_set(error, trouble.code, 0, "redis %s: %s (%.100s)",
                           shown, trouble.words, without_place(text));
}
