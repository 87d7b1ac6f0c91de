#define _GNU_SOURCE
#include "util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixtures/unit_test.h"

static char directory[] = "/tmp/simba-file-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/it", directory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rmdir(directory);
    return 0;
}

static int remove_it(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static void write_it(size_t size)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    for (size_t i = 0; i < size; i++) {
        fputc('a' + (int)(i % 26), file);
    }
    assert_int_equal(fclose(file), 0);
}

TEST_AROUND(test_file__is_read_whole, NULL, remove_it)
{
    struct simba__file file;

    write_it(100);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(simba__file_read(&file, path, 100), 0);
    assert_int_equal(file.size, 100);
    assert_int_equal(strlen(file.bytes), 100);
    assert_memory_equal(file.bytes, "abcdef", 6);
    assert_int_equal(file.status.st_mode & 0777, 0640);
    simba__file_fini(&file);
    write_it(0);
    assert_int_equal(simba__file_read(&file, path, 100), 0);
    assert_int_equal(file.size, 0);
    assert_string_equal(file.bytes, "");
    simba__file_fini(&file);
}

TEST_AROUND(test_file__a_byte_too_many_is_refused, NULL, remove_it)
{
    struct simba__file file;

    write_it(101);
    assert_int_equal(simba__file_read(&file, path, 100), EFBIG);
    assert_null(file.bytes);
}

TEST_AROUND(test_file__only_regular_files_are_read, NULL, remove_it)
{
    struct simba__file file;

    alarm(10); /* a FIFO that is waited for */
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(simba__file_read(&file, path, 100), ENOTSUP);
    assert_int_equal(simba__file_read(&file, directory, 100), EISDIR);
    assert_int_equal(simba__file_read(&file, "/dev/zero", 100), ENOTSUP);
    assert_null(file.bytes);
    alarm(0);
}

TEST(test_file__one_that_is_not_there_is_told)
{
    struct simba__file file;

    assert_int_equal(simba__file_read(&file, path, 100), ENOENT);
    assert_null(file.bytes);
}

static int write_anew(const char *text)
{
    char *temporary;
    FILE *out;
    int rc = simba__file_begin(path, &temporary, &out);

    if (rc == 0) {
        fputs(text, out);
    }
    return simba__file_end(path, temporary, out, rc);
}

TEST_AROUND(test_file__is_written_whole_or_not_at_all, NULL, remove_it)
{
    struct simba__file file;
    char *temporary;
    FILE *out;

    assert_int_equal(write_anew("first"), 0);
    assert_int_equal(simba__file_begin(path, &temporary, &out), 0);
    fputs("half", out);
    assert_int_equal(simba__file_end(path, temporary, out, ENOSPC), ENOSPC);
    assert_int_equal(simba__file_read(&file, path, 10), 0);
    assert_string_equal(file.bytes, "first");
    simba__file_fini(&file);
    assert_int_equal(write_anew("second"), 0);
    assert_int_equal(simba__file_read(&file, path, 10), 0);
    assert_string_equal(file.bytes, "second");
    simba__file_fini(&file);
}

TEST_AROUND(test_file__only_regular_files_are_replaced, NULL, remove_it)
{
    struct stat status;

    assert_int_equal(symlink("elsewhere", path), 0);
    assert_int_equal(write_anew("x"), ENOTSUP);
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(write_anew("x"), ENOTSUP);
    assert_int_equal(lstat(path, &status), 0);
    assert_true(S_ISFIFO(status.st_mode));
}

int main(void)
{
    return run_unit_tests(set_up, tear_down);
}
