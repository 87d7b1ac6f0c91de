/* Which store, and with what defaults: what the caller gave, the environment
 * and the config file put together (docs/configuration.md). */
#ifndef SIMBA_API_SETTINGS_H
#define SIMBA_API_SETTINGS_H

#include <simba/log.h>
#include <simba/store.h>

#include <stdint.h>

struct simba__settings {
    char *url;             /* whole, may hold a password */
    char origin[256];      /* who named it, for people */
    char place[128];       /* where the URL stands; "": the caller gave it */
    int64_t ttl_ms;        /* 0: not configured */
    int64_t transition_ms; /* -1: not configured */
    enum simba_log_level log_level;
    int spin_us; /* to look for a reply before sleeping: simba__spin_init() */
};

/** Put them together; free them also after a failure.
 *
 * @param given  as for simba_store_open() */
int simba__settings_find(struct simba__settings *settings,
                         const char *given,
                         enum simba_config_use use,
                         simba_error *error);

/** What is wrong with the URL: tell where it stands. Answers `rc`. */
int simba__settings_blame(const struct simba__settings *settings,
                          int rc,
                          simba_error *error);
void simba__settings_free(struct simba__settings *settings);

#endif
