/* Plays a contender of Simba on the JVM on MySQL and MariaDB, with its
 * statements, and polls as it does:
 *
 *   interop_mysql_player 3.1|3.3 SOCKET MUTEX ID TTL_MS TRANSITION_MS HOLD_MS
 *                        SECONDS
 *
 * 3.3 has tokens. Neither makes tables. */
#define _GNU_SOURCE
#include "contender.h"

#include <mysql.h>

#define NOW       "cast(unix_timestamp(current_timestamp(3)) * 1000 as unsigned)"
#define NOW_EXACT "(unix_timestamp(current_timestamp(3)) * 1000)"

/* Before it asks, before it reads the reply, or when it owns it. */
enum { STOP_SPREAD_NS = 3000000 };

struct player {
    struct plan plan;
    bool has_tokens;
    MYSQL *mysql;
    int64_t next_ms; /* until it asks or renews, from when it was told */
    int64_t asked_ns;
};

static bool run(const struct player *player, const char *text)
{
    if (mysql_query(player->mysql, text) == 0) {
        return true;
    }
    fprintf(stderr, "mysql: %s\n", mysql_error(player->mysql));
    return false;
}

static bool update(const struct player *player)
{
    const struct plan *plan = &player->plan;
    char text[2048], token[512] = "";

    if (player->has_tokens) {
        snprintf(token, sizeof token,
                 "fencing_token=if(owner_id='%s' and transition_at>" NOW_EXACT
                 ", fencing_token, fencing_token + 1), ",
                 plan->id);
    }
    snprintf(text, sizeof text,
             "update simba_mutex set %sacquired_at=" NOW ", ttl_at=(" NOW
             " + %d), transition_at=(" NOW
             " + %d), owner_id='%s', version=version + 1 where mutex='%s' and "
             "((transition_at < " NOW_EXACT
             ") or (owner_id='%s' and transition_at > " NOW_EXACT "))",
             token, plan->ttl_ms, plan->ttl_ms + plan->transition_ms, plan->id,
             plan->mutex, plan->id);
    return run(player, text);
}

/* Reads the row; makes it where there is none. */
static bool look(struct player *player, bool *is_mine)
{
    const struct plan *plan = &player->plan;
    char text[512];
    MYSQL_RES *result;
    MYSQL_ROW row;

    snprintf(text, sizeof text,
             "select ttl_at, transition_at, owner_id, " NOW
             " from simba_mutex where mutex='%s'",
             plan->mutex);
    if (!run(player, text)) {
        return false;
    }
    result = mysql_store_result(player->mysql);
    row = result == NULL ? NULL : mysql_fetch_row(result);
    if (row == NULL) {
        mysql_free_result(result);
        snprintf(text, sizeof text,
                 "insert into simba_mutex (mutex, acquired_at, ttl_at, "
                 "transition_at, owner_id, version) values ('%s',0,0,0,'',0)",
                 plan->mutex);
        run(player, text);
        player->next_ms = 0;
        return true;
    }
    *is_mine = strcmp(row[2], plan->id) == 0;
    player->next_ms =
        *is_mine ? strtoll(row[0], NULL, 10) - strtoll(row[3], NULL, 10)
                 : strtoll(row[1], NULL, 10) - strtoll(row[3], NULL, 10) +
                       random() % 1200 - 200;
    mysql_free_result(result);
    return true;
}

/* Acquires or renews, in one transaction. What fails is tried after a ttl. */
static bool contend(struct player *player)
{
    bool is_mine = false;

    player->next_ms = player->plan.ttl_ms;
    if (is_to_stop()) {
        stop_in(&player->plan, random() % STOP_SPREAD_NS);
    }
    player->asked_ns = now_ns();
    if (!run(player, "begin") || !update(player) || !look(player, &is_mine) ||
        !run(player, "commit")) {
        run(player, "rollback");
        return false;
    }
    if (is_mine) {
        say_granted(&player->plan, player->asked_ns);
    }
    return is_mine;
}

static bool is_owner(void *user)
{
    struct player *player = user;

    return now_ns() < player->asked_ns + player->next_ms * 1000000 ||
           contend(player);
}

static void release(const struct player *player)
{
    char text[512];

    snprintf(text, sizeof text,
             "update simba_mutex set acquired_at=0, ttl_at=0, transition_at=0,"
             " owner_id='', version=version + 1 where mutex='%s' and "
             "owner_id='%s'",
             player->plan.mutex, player->plan.id);
    run(player, text);
}

int main(int argc, char **argv)
{
    struct player player = {0};
    const struct plan *plan = &player.plan;

    if (argc != 9) {
        return 64;
    }
    player.plan = read_plan(argv + 2);
    player.has_tokens = strcmp(argv[1], "3.1") != 0;
    player.mysql = mysql_init(NULL);
    if (mysql_real_connect(player.mysql, "localhost", "simba", NULL, "simba", 0,
                           plan->url, 0) == NULL) {
        fprintf(stderr, "mysql: %s\n", mysql_error(player.mysql));
        return 1;
    }
    srandom((unsigned)getpid());
    while (is_time_left(plan)) {
        bool is_mine;

        say('W');
        while (!(is_mine = contend(&player)) && is_time_left(plan)) {
            nap_ms(player.next_ms > 0 ? player.next_ms : 0);
        }
        if (is_mine) {
            work(plan, is_owner, &player);
        }
        release(&player);
        nap_ms(5);
    }
    say('E');
    mysql_close(player.mysql);
    return 0;
}
