/* Guards that are text: SQL, a Redis script, marks. */
#include <simba/guard.h>

#include <inttypes.h>
#include <stdio.h>

static const char *const sql[][3] = {
    [SIMBA_GUARD_POSTGRES] =
        {[SIMBA_GUARD_CREATE] =
             "CREATE TABLE IF NOT EXISTS simba_guard ("
             "resource varchar(255) PRIMARY KEY, token bigint NOT NULL)",
         [SIMBA_GUARD_RAISE] =
             "INSERT INTO simba_guard (resource, token) VALUES ($1, $2) "
             "ON CONFLICT (resource) DO UPDATE SET "
             "token = greatest(simba_guard.token, excluded.token)",
         [SIMBA_GUARD_ASK] = "SELECT CASE WHEN token = $1 THEN 1 ELSE 0 END "
                             "FROM simba_guard WHERE resource = $2"},
    [SIMBA_GUARD_MYSQL] =
        {[SIMBA_GUARD_CREATE] =
             "CREATE TABLE IF NOT EXISTS simba_guard ("
             "resource varbinary(255) PRIMARY KEY, token bigint NOT NULL)",
         [SIMBA_GUARD_RAISE] =
             "INSERT INTO simba_guard (resource, token) VALUES (?, ?) "
             "ON DUPLICATE KEY UPDATE token = greatest(token, VALUES(token))",
         [SIMBA_GUARD_ASK] = "SELECT CASE WHEN token = ? THEN 1 ELSE 0 END "
                             "FROM simba_guard WHERE resource = ? FOR UPDATE"},
    [SIMBA_GUARD_SQLITE] =
        {[SIMBA_GUARD_CREATE] =
             "CREATE TABLE IF NOT EXISTS simba_guard ("
             "resource TEXT PRIMARY KEY, token INTEGER NOT NULL) WITHOUT ROWID",
         [SIMBA_GUARD_RAISE] =
             "INSERT INTO simba_guard (resource, token) VALUES (?1, ?2) "
             "ON CONFLICT (resource) DO UPDATE SET "
             "token = max(token, excluded.token)",
         [SIMBA_GUARD_ASK] = "SELECT CASE WHEN token = ?1 THEN 1 ELSE 0 END "
                             "FROM simba_guard WHERE resource = ?2"},
};

const char *simba_guard_sql(enum simba_guard_dialect dialect,
                            enum simba_guard_statement statement)
{
    if ((size_t)dialect >= sizeof sql / sizeof sql[0] ||
        (size_t)statement >= sizeof sql[0] / sizeof sql[0][0]) {
        return NULL;
    }
    return sql[dialect][statement];
}

/* Tokens are compared as text of one length: Lua's numbers are too small. */
const char *simba_guard_redis_script(void)
{
    return "local function wide(token)\n"
           "  return string.rep('0', 20 - #token) .. token\n"
           "end\n"
           "if not ARGV[1]:find('^%d+$') or #ARGV[1] > 20 or\n"
           "    wide(ARGV[1]) == wide('0') then\n"
           "  return redis.error_reply('BADTOKEN that is no token')\n"
           "end\n"
           "local mark = redis.call('GET', KEYS[1])\n"
           "if mark and wide(mark) > wide(ARGV[1]) then\n"
           "  return redis.error_reply('STALETOKEN the mark is ' .. mark)\n"
           "end\n"
           "redis.call('SET', KEYS[1], ARGV[1])\n"
           "return redis.call(ARGV[2], KEYS[2], unpack(ARGV, 3))\n";
}

void simba_guard_format(uint64_t token, char *text)
{
    (void)snprintf(text, SIMBA_GUARD_TEXT, "%020" PRIu64, token);
}

int simba_guard_judge(const char *mark,
                      size_t length,
                      uint64_t token,
                      simba_error *error)
{
    uint64_t seen = 0;

    for (size_t i = 0; i < length; i++) {
        uint64_t digit = (uint64_t)(unsigned char)mark[i] - '0';

        if (digit > 9 || seen > (UINT64_MAX - digit) / 10) {
            return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                                   "the mark of this resource is no token");
        }
        seen = seen * 10 + digit;
    }
    if (seen > token) {
        return simba_error_set(error, SIMBA_ELOST, 0,
                               "token %" PRIu64 " is stale: this resource has "
                               "seen %" PRIu64,
                               token, seen);
    }
    return SIMBA_OK;
}
