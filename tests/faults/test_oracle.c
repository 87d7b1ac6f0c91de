/* The oracle of a storm sees what it must, or storms prove nothing. */
#define _GNU_SOURCE
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>

#include "fixtures/unit_test.h"

static char directory[64];

static void put(const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static struct verdict judge_with(const char *sections,
                                 struct excuse *excuses,
                                 size_t excuse_count)
{
    struct verdict v;
    char command[128];

    snprintf(directory, sizeof directory, "/tmp/simba-oracle-XXXXXX");
    assert_non_null(mkdtemp(directory));
    put("sections", sections);
    put("set", "\na .\nc .");
    put("set.acks", "\na .\nb .\nd");
    put("fenced", "9\nx .\ny .");
    put("fenced.acks", "\nx .");
    v = oracle_judge(directory, excuses, excuse_count);
    snprintf(command, sizeof command, "rm -r '%s'", directory);
    assert_int_equal(system(command), 0);
    return v;
}

static struct verdict judge(const char *sections, struct excuse *excuse)
{
    return judge_with(sections, excuse, excuse == NULL ? 0 : 1);
}

/* Their last line may be cut. */
TEST(test_oracle__believes_no_half_of_a_line)
{
    struct verdict v = judge("\n1 10 5 m 10 11 .\n1 10 5 m 1"
                             "\n2 30 6 m 30 31 .\n1 10 5 m 120",
                             NULL);

    assert_int_equal(v.sections, 2);
    assert_int_equal(v.overlaps, 0);
}

/* Inside from the end of the first line to the beginning of the last. */
TEST(test_oracle__sees_who_is_inside_with_another)
{
    assert_int_equal(
        judge("1 10 5 m 10 11 .\n2 30 6 m 30 31 .\n1 10 5 m 20 40 .\n"
              "2 30 6 m 50 51 .\n",
              NULL)
            .overlaps,
        0);
    assert_int_equal(
        judge("1 10 5 m 10 11 .\n2 30 6 m 30 31 .\n1 10 5 m 32 33 .\n"
              "2 30 6 m 50 51 .\n",
              NULL)
            .overlaps,
        1);
    assert_int_equal(
        judge("1 10 5 m 10 11 .\n2 30 6 n 30 31 .\n1 10 5 m 32 33 .\n"
              "2 30 6 n 50 51 .\n",
              NULL)
            .overlaps,
        0);
}

/* One line says that it was inside at some instant of it. */
TEST(test_oracle__sees_who_was_inside_with_another_for_one_line)
{
    assert_int_equal(
        judge("1 10 5 m 10 11 .\n2 30 6 m 30 31 .\n1 10 5 m 40 41 .\n", NULL)
            .overlaps,
        1);
    assert_int_equal(
        judge("1 10 5 m 10 11 .\n2 30 6 m 30 41 .\n1 10 5 m 40 42 .\n", NULL)
            .overlaps,
        0);
    assert_int_equal(
        judge("1 10 5 m 10 31 .\n2 30 6 m 30 32 .\n1 10 5 m 40 42 .\n", NULL)
            .overlaps,
        0);
}

TEST(test_oracle__excuses_what_is_excused_only)
{
    static const char both[] = "1 10 5 m 10 11 .\n2 30 6 m 30 31 .\n"
                               "1 10 5 m 40 41 .\n2 30 6 m 50 51 .\n";
    struct excuse theirs = {"", 35, 60, 1, 0}, late = {"", 45, 60, 0, 0},
                  others = {"", 0, 60, 3, 0};

    assert_int_equal(judge(both, &theirs).excused, 1);
    assert_int_equal(judge(both, &late).overlaps, 1);
    assert_int_equal(judge(both, &others).overlaps, 1);
}

/* Where everything is excused, nothing is shown: the share is told. */
TEST(test_oracle__tells_for_how_long_it_excuses)
{
    static const char sections[] = "1 100 5 m 100 100 .\n1 100 5 m 120 120 .\n"
                                   "2 150 6 n 150 150 .\n"
                                   "2 150 6 n 200 200 .\n";
    struct excuse all[] = {{"", 50, 110, 0, 0},  {"", 105, 120, 0, 0},
                           {"", 150, 160, 0, 0}, {"", 190, 230, 7, 0},
                           {"", 195, 199, 8, 0}, {"", 180, 0, 0, 0}};
    struct verdict v = judge_with(sections, all, 6);

    assert_int_equal(v.span_us, 100);
    assert_int_equal(v.excused_us, 30);
    assert_int_equal(v.partly_us, 10);
    assert_int_equal(judge("", NULL).span_us, 0);
}

/* A step back of a server's clock excuses tokens, but no overlap. */
TEST(test_oracle__excuses_no_overlap_by_what_excuses_tokens)
{
    struct excuse back = {"", 35, 0, 0, 0};
    struct verdict v = judge("1 10 6 m 10 11 .\n2 30 5 m 30 31 .\n"
                             "1 10 6 m 40 41 .\n2 30 5 m 50 51 .\n"
                             "3 60 4 m 60 61 .\n",
                             &back);

    assert_int_equal(v.overlaps, 1);
    assert_int_equal(v.excused, 0);
    assert_int_equal(v.tokens_back, 1);
}

TEST(test_oracle__sees_tokens_that_go_back_and_elements_that_are_lost)
{
    struct verdict v =
        judge("1 10 6 m 10 11 .\n2 30 6 m 30 31 .\n3 40 5 m 40 41 .\n"
              "4 50 7 m 50 51 .\n",
              NULL);

    assert_int_equal(v.sections, 4);
    assert_int_equal(v.tokens_back, 2);
    assert_int_equal(v.added[0], 2);
    assert_int_equal(v.lost[0], 1);
    assert_int_equal(v.added[1], 1);
    assert_int_equal(v.lost[1], 0);
}
