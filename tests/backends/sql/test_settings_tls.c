/* TLS to a database server: to other machines it is there and verified unless
 * the URL says otherwise; to this one only when asked for. */
#define _GNU_SOURCE
#include "driver.h"
#include "reported.h"

#define HERE "127.0.0.1"
#ifdef SERVER_IS_POSTGRES
#define URL          "postgres://simba@%s:%s/postgres?connect_timeout=5%s"
#define CA           "&sslrootcert="
#define HOW_TO_TRUST "sslrootcert=FILE says whom to trust"
#define VERIFIED     "&sslmode=verify-full"
#define UNVERIFIED   "&sslmode=require"
#define PLAIN        "&sslmode=disable"
/* So that any name leads to this server; the store goes by the name. */
#define LEADS_HERE "&hostaddr=127.0.0.1"
#else
#define URL          "mysql://simba@%s:%s/simba?option_file=/dev/null%s"
#define CA           "&tls_ca="
#define HOW_TO_TRUST "tls_ca=FILE says whom to trust"
#define VERIFIED     "&tls=on"
#define UNVERIFIED   "&tls=unverified"
#endif

static int status;

/* Acquire through such a URL. */
static void use(const char *host, const char *parameters)
{
    char url[1024];
    struct handle handle;
    struct who a = person(&handle, "a");

    snprintf(url, sizeof url, URL, host, getenv("SIMBA_SERVER_PORT"),
             parameters);
    assert_int_equal(try_open(&handle, url), SIMBA_OK);
    status = try_run(&a, asking(&a));
    if (status == SIMBA_OK) {
        expect_mine(&a);
        release(&a);
    }
    handle_close(&handle);
}

/* Whom to trust. */
static const char *by(const char *authority, const char *more)
{
    static char parameters[600];

    snprintf(parameters, sizeof parameters, "%s%s/%s%s", CA,
             getenv("SIMBA_SERVER_DIR"), authority, more);
    return parameters;
}

static void expect_refused(void)
{
    if (status != SIMBA_EMISCONFIG) {
        fail_msg("%d: %s", status, why.message);
    }
    assert_true(strstr(why.message, "ertificate") != NULL ||
                strstr(why.message, "TLS") != NULL);
    if (strstr(why.message, HOW_TO_TRUST) == NULL) {
        fail_msg("it does not say what to do: %s", why.message);
    }
}

SQL_TEST(test_sql_settings_tls__needs_none_on_this_machine)
{
    use(HERE, "");
    assert_int_equal(status, SIMBA_OK);
}

SQL_TEST(test_sql_settings_tls__verifies_when_asked_to)
{
    use(HERE, by("ca.pem", VERIFIED));
    assert_int_equal(status, SIMBA_OK);
    use(HERE, by("other.pem", VERIFIED));
    expect_refused();
}

/* What the doctor says of a server behind such a URL. */
static void examine(const char *host, const char *parameters)
{
    char url[1024];
    struct handle handle;
    struct who a = person(&handle, "a");

    snprintf(url, sizeof url, URL, host, getenv("SIMBA_SERVER_PORT"),
             parameters);
    assert_int_equal(try_open(&handle, url), SIMBA_OK);
    memset(&noted, 0, sizeof noted);
    run(&a, (simba_request){.kind = SIMBA_DOCTOR, .mutex = ""});
    handle_close(&handle);
}

SQL_TEST(test_sql_settings_tls__doctor_minds_the_way_to_other_machines)
{
#ifdef SERVER_IS_POSTGRES
    examine(HERE, PLAIN);
    assert_int_equal(finding("tls")->gravity, SIMBA_FINDING_OK);
    examine("elsewhere", LEADS_HERE UNVERIFIED);
    assert_int_equal(finding("tls")->gravity, SIMBA_FINDING_WEAK);
    assert_non_null(strstr(finding("tls")->text, "anybody could be"));
#else
    examine(HERE, "");
    assert_int_equal(finding("tls")->gravity, SIMBA_FINDING_OK);
    /* It has a binary log. */
    assert_int_equal(finding("persistence")->gravity, SIMBA_FINDING_WEAK);
    assert_non_null(strstr(finding("persistence")->text, "sync_binlog=0"));
#endif
    examine(HERE, UNVERIFIED);
    assert_int_equal(finding("tls")->gravity, SIMBA_FINDING_OK);
}

SQL_TEST(test_sql_settings_tls__may_be_unverified)
{
    use(HERE, UNVERIFIED);
    assert_int_equal(status, SIMBA_OK);
}

#ifdef SERVER_IS_POSTGRES
SQL_TEST(test_sql_settings_tls__is_verified_elsewhere)
{
    use("db.example", LEADS_HERE);
    expect_refused(); /* the authority is not one that the system trusts */
    assert_non_null(strstr(why.message, "sslmode=disable"));
    use("db.example", by("other.pem", LEADS_HERE));
    expect_refused();
    use("db.example", by("ca.pem", LEADS_HERE));
    assert_int_equal(status, SIMBA_OK);
    use("db.example", PLAIN LEADS_HERE);
    assert_int_equal(status, SIMBA_OK);
}

SQL_TEST(test_sql_settings_tls__must_be_the_right_host)
{
    use("evil.example", by("ca.pem", LEADS_HERE));
    expect_refused();
}
#else
static bool has_tls(const char *rest, bool *is_verified)
{
    struct simba__my_settings settings;
    bool is_on;

    assert_int_equal(simba__my_settings_read(&settings, rest, &why), SIMBA_OK);
    is_on = settings.tls.use != SIMBA__TLS_OFF;
    *is_verified = settings.tls.is_verified;
    simba__my_settings_fini(&settings);
    return is_on;
}

SQL_TEST(test_sql_settings_tls__is_verified_elsewhere)
{
    bool is_verified;

    assert_true(has_tls("//u@db.example/d", &is_verified));
    assert_true(is_verified);
    assert_true(has_tls("//u@[2001:db8::1]/d", &is_verified));
    assert_true(is_verified);
    assert_true(has_tls("//u@db.example/d?tls=unverified", &is_verified));
    assert_false(is_verified);
    assert_false(has_tls("//u@db.example/d?tls=off", &is_verified));
    assert_false(has_tls("//u@localhost/d?socket=/x", &is_verified));
    assert_false(has_tls("//u@127.0.0.1/d", &is_verified));
    assert_false(has_tls("//u@[::1]/d", &is_verified));
    assert_true(has_tls("//u@127.0.0.1.example/d", &is_verified));
}

SQL_TEST(test_sql_settings_tls__must_be_the_right_host)
{
    use("127.0.0.2", by("ca.pem", VERIFIED));
    expect_refused();
}
#endif
