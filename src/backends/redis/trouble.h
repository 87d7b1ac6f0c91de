/* What Redis says when it refuses, in our codes and words. */
#ifndef SIMBA_REDIS_TROUBLE_H
#define SIMBA_REDIS_TROUBLE_H

#include <simba/sys/backend.h>

/* What to do about it, beyond failing. */
enum simba__redis_remedy {
    SIMBA__REDIS_NONE,
    SIMBA__REDIS_SEND_SCRIPT, /* it does not know the script: send its text */
    SIMBA__REDIS_MOVED,       /* ask another node, from now on */
    SIMBA__REDIS_ASK,         /* ask another node, this once */
    SIMBA__REDIS_AGAIN,       /* ask again shortly */
    SIMBA__REDIS_REMAKE,      /* this connection leads to the wrong server */
};

struct simba__redis_trouble {
    enum simba__redis_remedy remedy;
    int code;
    const char *words; /* what it means; then Redis's own text follows */
};

/** Understand an error reply. */
struct simba__redis_trouble simba__redis_understand(const char *text);

/** Say it: "redis host:port: words (text)". Returns the code. */
int simba__redis_explain(simba_error *error,
                         const char *shown,
                         const char *text);

#endif
