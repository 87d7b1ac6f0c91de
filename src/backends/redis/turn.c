/* A turn; see turn.h. */
#include "backends/redis/turn.h"

#include <assert.h>
#include <stdlib.h>

/* A flush that was posted to the loop; outlives the store if it must. */
struct simba__redis_post {
    struct simba__redis_env *env; /* NULL: too late */
};

static void flush_all(struct simba__redis_env *env)
{
    struct simba__redis_conn *conn;

    while ((conn = env->unsent) != NULL) {
        simba__redis_turn_remove(conn);
        simba__redis_conn_flush(conn);
    }
}

void simba__redis_turn_begin(struct simba__redis_env *env)
{
    env->turn_depth++;
}

void simba__redis_turn_end(struct simba__redis_env *env)
{
    assert(env->turn_depth > 0);
    if (env->turn_depth == 1) {
        flush_all(env); /* failures in here may write to others */
    }
    env->turn_depth--;
}

static void run_post(void *argument)
{
    struct simba__redis_post *post = argument;

    if (post->env != NULL) {
        post->env->post = NULL;
        simba__redis_turn_begin(post->env);
        simba__redis_turn_end(post->env);
    }
    free(post);
}

static bool is_busy(const struct simba__redis_env *env)
{
    const struct simba__redis_conn *conn = env->unsent;

    /* The command just written is one of them. */
    return conn != NULL && conn->next_unsent == NULL && conn->asks > 1;
}

void simba__redis_turn_end_later(struct simba__redis_env *env)
{
    if (env->turn_depth == 1 && is_busy(env)) {
        if (env->post == NULL &&
            (env->post = malloc(sizeof *env->post)) != NULL) {
            env->post->env = env;
            simba_loop_post(env->loop, run_post, env->post);
        }
        if (env->post != NULL) {
            env->turn_depth--;
            return;
        }
    }
    simba__redis_turn_end(env);
}

void simba__redis_turn_add(struct simba__redis_conn *conn)
{
    struct simba__redis_env *env = conn->env;

    if (!conn->is_listed) {
        conn->is_listed = true;
        conn->next_unsent = env->unsent;
        env->unsent = conn;
    }
}

void simba__redis_turn_remove(struct simba__redis_conn *conn)
{
    struct simba__redis_conn **at = &conn->env->unsent;

    if (conn->is_listed) {
        while (*at != conn) {
            at = &(*at)->next_unsent;
        }
        *at = conn->next_unsent;
        conn->next_unsent = NULL;
        conn->is_listed = false;
    }
}

void simba__redis_turn_stop(struct simba__redis_env *env)
{
    if (env->post != NULL) {
        env->post->env = NULL;
        env->post = NULL;
    }
}
