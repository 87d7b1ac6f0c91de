/* What is shown: lines on stderr, times and lengths, tables, members of JSON, a
 * block that is drawn anew. */
#ifndef SIMBA_CLI_OUTPUT_H
#define SIMBA_CLI_OUTPUT_H

#include "cli/cli.h"
#include "util/json.h"

#include <pthread.h>
#include <stdio.h>

/* --- stderr.c ------------------------------------------------------------ */

/* stderr is shared with CMD and may be a pipe that nobody reads. A message is
 * given up rather than waited for: the one who talks also passes on signals. */

/** "simba: …" and a newline, cut when it is too long. */
void simba__say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Was this said by the latest of these lines, perhaps among other words? */
bool simba__has_said(const char *text);

/** Write a line of JSON that has room for its newline. No line is longer than
 * PIPE_BUF: a pipe that poll() calls writable takes so much without blocking,
 * and in one piece. */
void simba__say_json(struct simba__text *line);

/** Room for who says something. */
enum { SIMBA__SAY_WHO = 64 };

/** Who says it, as it stands before a message of the library: "redis: ", or
 * nothing where the message begins with the same word, or is of a part of the
 * library that users do not know. */
const char *simba__say_who(const char *component,
                           const char *message,
                           char room[SIMBA__SAY_WHO]);

/** Says that something is being waited for, when that takes longer than a
 * second, on a thread of its own. */
struct simba__wait_notice {
    void (*look)(void *user); /* what is there to say? May block, may be NULL */
    void (*say)(void *user);  /* not called once it is over; must not block */
    void *user;

    char shown[512]; /* the store */
    bool is_running;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool is_over;
};

/** A store is waited for, which is said on a terminal only; `cli` NULL: there
 * is nothing to say. */
void simba__wait_notice_begin(struct simba__wait_notice *notice,
                              const struct simba__cli *cli);

/** Something else is: look, say and user are set. */
void simba__wait_notice_start(struct simba__wait_notice *notice);

/** Nothing is waited for any more: nothing is said from now on. */
void simba__wait_notice_over(struct simba__wait_notice *notice);

/** The same, and wait for the thread; it can be started again. */
void simba__wait_notice_end(struct simba__wait_notice *notice);

/* --- format.c ------------------------------------------------------------ */

/** Room for what these write. */
enum { SIMBA__FORMAT_ROOM = 64 };

/** A length of time that is not known, or has no end. */
enum { SIMBA__UNKNOWN = -1 };

/** A length of time: 250ms, 9.8s, 42s, 3m12s, 5h03m, 2d07h. */
void simba__format_duration(int64_t ms, char text[SIMBA__FORMAT_ROOM]);

/** Local time: 2026-11-16 06:43:12.123, without milliseconds if not wanted. */
void simba__format_time(int64_t unix_ms,
                        bool has_ms,
                        char text[SIMBA__FORMAT_ROOM]);

/** [######----]: so much of the whole. */
void simba__format_bar(int64_t part,
                       int64_t whole,
                       char text[SIMBA__FORMAT_ROOM]);

/** The time of day, milliseconds since 1970. */
int64_t simba__unix_ms(void);

/** Can what is written there be moved over again? It is a terminal. */
bool simba__is_live(int fd);

/** And is colour welcome ($NO_COLOR, $TERM)? */
bool simba__has_colour(int fd);

/** A member that is a length of time, or null for SIMBA__UNKNOWN. */
void simba__put_ms(struct simba__json *json, const char *key, int64_t ms);

/** Members "unix_ms", "boot_ms" and "boot": when it happened on both clocks,
 * the second one being given, and which boot that counts from. */
void simba__put_times(struct simba__json *json, int64_t boot_ms);

/** Print a text of somebody else's, with '?' for what a terminal might obey. */
void simba__print_calm(FILE *out, const char *text);

/** Put '?' for it in place. */
void simba__calm(char *text);

/* --- table.c: columns that line up --------------------------------------- */

enum { SIMBA__TABLE_COLUMNS = 8 };

/** How a row looks where there is colour. */
enum simba__tint {
    SIMBA__TINT_NONE,
    SIMBA__TINT_BOLD,
    SIMBA__TINT_FAINT,
    SIMBA__TINT_GREEN,
    SIMBA__TINT_YELLOW,
    SIMBA__TINT_RED
};

struct simba__table_row;

struct simba__table {
    size_t columns;
    unsigned right;   /* bit n: column n is aligned to the right */
    unsigned soft;    /* bit n: column n may be cut, so that the others fit */
    unsigned hosts;   /* bit n: of ids there, what follows the @ is cut last */
    unsigned hidden;  /* bit n: column n is not shown */
    bool has_words;   /* the last column is broken at words where it ends */
    size_t room_most; /* how wide a row may be; 0: any width */
    bool has_colour;
    struct simba__table_row *rows;
    size_t count, room;
    bool is_short; /* there was no memory for some */
};

/** Add a row; the texts are copied, and control characters in them shown as
 * '?', for they come from others and might move the cursor. */
void simba__table_add(struct simba__table *table,
                      enum simba__tint tint,
                      const char *const *texts);

/** Print the first rows, each ended by a newline. */
void simba__table_print(const struct simba__table *table,
                        FILE *out,
                        size_t most);

/** Print a text that begins in this column, and go on in the next line, in the
 * same column, before a word that does not fit into the width; 0: there is
 * none. */
void simba__print_words(FILE *out,
                        const char *text,
                        size_t column,
                        size_t width);

/** Forget the rows. */
void simba__table_fini(struct simba__table *table);

/* --- live.c -------------------------------------------------------------- */

/** A block of lines at the bottom of a terminal that is drawn anew in place,
 * with lines that stay above it. Where there is no terminal there is no block,
 * just the lines. */
struct simba__live {
    pthread_mutex_t lock;
    bool is_live; /* stdout is a terminal */
    char *block;  /* what stands at the bottom, or NULL */
    int height;   /* how many lines of it stand there now */
};

/** @param may_draw  false: no block even on a terminal */
void simba__live_init(struct simba__live *live, bool may_draw);
void simba__live_fini(struct simba__live *live);

/** A line that stays, without its newline; false when it cannot be written.
 * Any thread.
 *
 * @param column  where to go on when it is too long for the terminal; 0: it is
 *                not broken */
bool simba__live_line(struct simba__live *live,
                      const char *line,
                      size_t column);

/** For simba_store_options: a message on stderr, above the block too. */
void simba__live_log(void *live,
                     enum simba_log_level level,
                     const char *component,
                     const char *message);

/** Replace the block; its text is freed by the live view. Any thread. */
void simba__live_draw(struct simba__live *live, char *block);

/** False when nobody will ever read what is printed, which a program that has
 * nothing to print would not notice; then SIGPIPE is raised as a write would.
 */
bool simba__live_is_read(void);

/** How many lines a block may have, and how wide the terminal is; 0: stdout is
 * none. */
void simba__live_size(size_t *lines, size_t *width);

#endif
