/* The table of the contract in docs/backends.md: printed, or, with the name of
 * that file, compared with the tests there are. */
#include <simba/sys/tck.h>

#include <stdio.h>
#include <string.h>

enum { LINE_ROOM = 1024 };

static void make_row(const simba_tck_case *test, char *row)
{
    snprintf(row, LINE_ROOM, "| `%s` | %s%s%s%s |\n", test->name, test->says,
             *test->only == '\0' ? "" : " Only ", test->only,
             *test->only == '\0' ? "" : ".");
}

static int print_rows(void)
{
    const simba_tck_case *test;
    char row[LINE_ROOM];

    for (size_t i = 0; (test = simba_tck_case_at(i)) != NULL; i++) {
        make_row(test, row);
        fputs(row, stdout);
    }
    return 0;
}

/* The rows of tests begin with a name in backquotes and hold a full stop in
 * it; other tables do not. */
static bool is_row(const char *line)
{
    const char *dot = strchr(line, '.');
    const char *end =
        strncmp(line, "| `", 3) == 0 ? strchr(line + 3, '`') : NULL;

    return end != NULL && dot != NULL && dot < end;
}

static int compare(FILE *file)
{
    const simba_tck_case *test;
    char line[LINE_ROOM], row[LINE_ROOM];
    size_t count = 0;
    int wrong = 0;

    while (fgets(line, sizeof line, file) != NULL) {
        if (!is_row(line)) {
            continue;
        }
        test = simba_tck_case_at(count++);
        row[0] = '\0';
        if (test != NULL) {
            make_row(test, row);
        }
        if (strcmp(line, row) != 0) {
            wrong++;
            printf("# there: %s# wants: %s%s", line, row,
                   test == NULL ? "no row\n" : "");
        }
    }
    if (simba_tck_case_at(count) != NULL) {
        printf("# %s is missing\n", simba_tck_case_at(count)->name);
        wrong++;
    }
    printf("%s - the table has a row for each of %zu tests\n",
           wrong == 0 ? "ok 1" : "not ok 1", count);
    return wrong == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    FILE *file;
    int rc;

    if (argc < 2) {
        return print_rows();
    }
    file = fopen(argv[1], "r");
    if (file == NULL) {
        perror(argv[1]);
        return 1;
    }
    rc = compare(file);
    (void)fclose(file);
    return rc;
}
