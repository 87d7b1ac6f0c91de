/* What servers say when they refuse, word for word as Redis 6.2.14, Redis
 * 7.0.15 and Valkey 9.1.2 said it, and what is made of it. */
#include "backends/redis/redis.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "fixtures/unit_test.h"

#define IN_SCRIPT_6 "ERR Error running script (call to f_3c106ed918e682): "

static const struct {
    const char *text;
    int code;
    enum simba__redis_remedy remedy;
    const char *shown; /* part of the message for people */
} said[] = {
    {"NOSCRIPT No matching script. Please use EVAL.", SIMBA_EUNAVAIL,
     SIMBA__REDIS_SEND_SCRIPT, "lost its script"},
    {"LOADING Redis is loading the dataset in memory", SIMBA_EUNAVAIL,
     SIMBA__REDIS_AGAIN, "loading"},
    {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or "
     "SHUTDOWN NOSAVE.",
     SIMBA_EUNAVAIL, SIMBA__REDIS_AGAIN, "busy"},
    {"CLUSTERDOWN The cluster is down", SIMBA_EUNAVAIL, SIMBA__REDIS_AGAIN,
     "cluster is down"},
    {"CLUSTERDOWN Hash slot not served", SIMBA_EUNAVAIL, SIMBA__REDIS_AGAIN,
     "slot not served"},
    {"TRYAGAIN Multiple keys request during rehashing of slot", SIMBA_EUNAVAIL,
     SIMBA__REDIS_AGAIN, "moving"},
    {"MOVED 3999 127.0.0.1:6381", SIMBA_EUNAVAIL, SIMBA__REDIS_MOVED, "moved"},
    {"ASK 3999 127.0.0.1:6381", SIMBA_EUNAVAIL, SIMBA__REDIS_ASK, "moving"},
    {"WRONGPASS invalid username-password pair or user is disabled.",
     SIMBA_EDENIED, SIMBA__REDIS_NONE, "wrong user or password"},
    {"NOAUTH Authentication required.", SIMBA_EDENIED, SIMBA__REDIS_NONE,
     "wants a password"},
    {"ERR DB index is out of range", SIMBA_EMISCONFIG, SIMBA__REDIS_NONE,
     "no such database"},
    {"MISCONF Redis is configured to save RDB snapshots, but it's currently "
     "unable to persist to disk.",
     SIMBA_EUNAVAIL, SIMBA__REDIS_NONE, "disk"},
    /* out of memory */
    {"OOM command not allowed when used memory > 'maxmemory'. script: "
     "f7695f1f60141ab94a740da6a757ee400b5916bc, on @user_script:140.",
     SIMBA_EUNAVAIL, SIMBA__REDIS_NONE, "(OOM command not allowed"},
    {IN_SCRIPT_6 "@user_script:1: @user_script: 1: -OOM command not allowed "
                 "when used memory > 'maxmemory'.",
     SIMBA_EUNAVAIL, SIMBA__REDIS_NONE, "(OOM command not allowed"},
    /* a replica */
    {"READONLY You can't write against a read only replica. script: on "
     "@user_script:1.",
     SIMBA_EUNAVAIL, SIMBA__REDIS_RECONNECT, "replica"},
    {IN_SCRIPT_6 "@user_script:1: @user_script: 1: -READONLY You can't write "
                 "against a read only replica.",
     SIMBA_EUNAVAIL, SIMBA__REDIS_RECONNECT, "replica"},
    /* no permission */
    {"NOPERM User poor has no permissions to run the 'info' command",
     SIMBA_EDENIED, SIMBA__REDIS_NONE, "permission"},
    {"ERR The user executing the script can't publish to the channel mentioned "
     "in the command script: 3c106e, on @user_script:1.",
     SIMBA_EDENIED, SIMBA__REDIS_NONE, "channel"},
    {IN_SCRIPT_6 "@user_script:1: @user_script: 1: The user executing the "
                 "script can't run this command or subcommand",
     SIMBA_EDENIED, SIMBA__REDIS_NONE, "(The user executing the script"},
    {"ERR ACL failure in script: User poor has no permissions to run the 'set' "
     "command script: on @user_script:1.",
     SIMBA_EDENIED, SIMBA__REDIS_NONE, "'set'"},
    {"ERR ACL failure in script: No permissions to access a channel script: on "
     "@user_script:1.",
     SIMBA_EDENIED, SIMBA__REDIS_NONE, "channel"},
    /* keys that are not ours */
    {"WRONGTYPE Operation against a key holding the wrong kind of value "
     "script: on @user_script:1.",
     SIMBA_EMISCONFIG, SIMBA__REDIS_NONE, "something else"},
    {IN_SCRIPT_6 "@user_script:1: WRONGTYPE Operation against a key holding "
                 "the wrong kind of value",
     SIMBA_EMISCONFIG, SIMBA__REDIS_NONE, "(WRONGTYPE"},
    /* too old */
    {IN_SCRIPT_6 "@user_script:1: @user_script: 1: Unknown Redis command "
                 "called from Lua script",
     SIMBA_EMISCONFIG, SIMBA__REDIS_NONE, "too old?"},
    {"ERR Unknown command called from script script: on @user_script:1.",
     SIMBA_EMISCONFIG, SIMBA__REDIS_NONE, "too old?"},
    /* a script that failed halfway may have had an effect */
    {"ERR user_script:7: attempt to index a nil value script: 3c106e, on "
     "@user_script:7.",
     SIMBA_EUNKNOWN, SIMBA__REDIS_NONE, "failed"},
    {IN_SCRIPT_6 "@user_script:7: attempt to index a nil value", SIMBA_EUNKNOWN,
     SIMBA__REDIS_NONE, "(attempt to index"},
    {"ERR Error running script", SIMBA_EUNKNOWN, SIMBA__REDIS_NONE, "failed"},
    {"ERR Error running script @user_script:", SIMBA_EUNKNOWN,
     SIMBA__REDIS_NONE, "failed"},
    {"OOMPH", SIMBA_EUNKNOWN, SIMBA__REDIS_NONE, "OOMPH"},
    {"", SIMBA_EUNKNOWN, SIMBA__REDIS_NONE, "failed"},
};

TEST(test_redis_reply__errors_are_understood)
{
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        struct simba__redis_failure failure =
            simba__redis_understand(said[i].text);
        simba_error error;
        int code = simba__redis_explain(&error, "host:1", said[i].text);

        if (failure.code != said[i].code || code != said[i].code ||
            failure.remedy != said[i].remedy ||
            strstr(error.message, said[i].shown) == NULL) {
            fail_msg("%s: %d %d %s", said[i].text, code, (int)failure.remedy,
                     error.message);
        }
    }
}
