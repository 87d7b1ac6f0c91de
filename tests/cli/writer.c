/* Keeps a SQLite database locked until its input ends, against other writers
 * or, with "all", also against those who read: "locked" is printed when it
 * is. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *begin = argc > 2 && strcmp(argv[2], "all") == 0
                            ? "PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE"
                            : "BEGIN IMMEDIATE";
    sqlite3 *db = NULL;

    if (argc < 2 || sqlite3_open(argv[1], &db) != SQLITE_OK ||
        sqlite3_busy_timeout(db, 10000) != SQLITE_OK ||
        sqlite3_exec(db, begin, NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "writer: %s\n", sqlite3_errmsg(db));
        return 1;
    }
    puts("locked");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    sqlite3_close(db);
    return 0;
}
