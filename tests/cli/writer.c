/* Keeps a SQLite database locked against other writers until its input ends:
 * "locked" is printed when it is. */
#include <sqlite3.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    sqlite3 *db = NULL;

    if (argc != 2 || sqlite3_open(argv[1], &db) != SQLITE_OK ||
        sqlite3_busy_timeout(db, 10000) != SQLITE_OK ||
        sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK) {
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
