/* Who may ask; see serve.h.
 *
 * Three things are checked. Host: a name that somebody lets point to this
 * machine would make his pages ours (DNS rebinding); an address cannot be
 * bent, and names are known. Who: by password, whose hash takes long to
 * compute on purpose, so that is done once by a thread of its own and then
 * remembered under a quick hash with a salt that nobody knows; or by a proxy.
 * Whence: what changes something carries a key that only our pages can read. */
#define _GNU_SOURCE
#include "cli/clock.h"
#include "serve/serve.h"
#include "util/file.h"

#include <arpa/inet.h>
#include <crypt.h>
#include <microhttpd.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    FILE_MOST = 1 << 20,
    KNOWN_MOST = 64,
    KNOWN_FOR_MS = 10 * 60 * 1000,
    KEY_BYTES = 16
};

struct known {
    char *hash; /* quick, of name and password */
    char user[SIMBA__USER_ROOM];
    int64_t since_ms;
};

static struct {
    struct simba__access given;
    char host[256]; /* of this machine */
    char key[2 * KEY_BYTES + 1];
    char salt[64]; /* setting of the quick hash */
    pthread_mutex_t lock;
    struct simba__file file;
    struct known known[KNOWN_MOST];
    size_t next; /* to be replaced */
} access_ = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void make_hex(char *to, size_t bytes)
{
    unsigned char random[KEY_BYTES];

    if (getrandom(random, bytes, 0) != (ssize_t)bytes) {
        abort(); /* a key that can be guessed is none */
    }
    for (size_t i = 0; i < bytes; i++) {
        (void)snprintf(to + 2 * i, 3, "%02x", random[i]);
    }
}

/* As long as the longer one takes, whatever they are. */
static bool is_same(const char *a, const char *b)
{
    size_t length = strlen(a);
    unsigned char difference = length != strlen(b);

    for (size_t i = 0; i < length; i++) {
        difference |= (unsigned char)(a[i] ^ b[i % (strlen(b) + 1)]);
    }
    return difference == 0;
}

/* --- the file ------------------------------------------------------------ */

/* The hash of a user, of so many bytes; NULL: none. Lines are user:hash; what
 * follows a second colon is not ours. */
static const char *find_user(const char *user, size_t *length)
{
    size_t name = strlen(user);

    for (const char *line = access_.file.bytes; line != NULL && *line != '\0';
         line = strchr(line, '\n') == NULL ? NULL : strchr(line, '\n') + 1) {
        if (*line != '#' && (user[0] == '\0' ? *line != '\n'
                                             : strncmp(line, user, name) == 0 &&
                                                   line[name] == ':')) {
            line += strcspn(line, ":\n");
            line += *line == ':';
            *length = strcspn(line, ":\r\n");
            return line;
        }
    }
    return NULL;
}

static bool check_lines(const char *path)
{
    const char *line = access_.file.bytes;
    int number = 0, users = 0;

    for (; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *colon = line + strcspn(line, ":\n");
        char hash[CRYPT_OUTPUT_SIZE];
        size_t length;
        int verdict;

        number++;
        if (*line == '#' || *line == '\n' || *line == '\r') {
            continue;
        }
        length = *colon == ':' ? strcspn(colon + 1, ":\r\n") : 0;
        (void)snprintf(hash, sizeof hash, "%.*s", (int)length, colon + 1);
        verdict = crypt_checksalt(hash);
        if (colon == line || colon - line >= SIMBA__USER_ROOM ||
            length >= sizeof hash ||
            (verdict != CRYPT_SALT_OK && verdict != CRYPT_SALT_TOO_CHEAP)) {
            simba__say("%s: line %d is not user:hash with a hash that is good "
                       "enough; 'mkpasswd -m yescrypt', 'htpasswd -B' and "
                       "'openssl passwd -6' make one",
                       path, number);
            return false;
        }
        users++;
    }
    if (users == 0) {
        simba__say("%s: names no user; a line is user:hash, and 'mkpasswd -m "
                   "yescrypt' makes a hash",
                   path);
    }
    return users > 0;
}

/* Under the lock. A file that is wrong now lets nobody in. */
static bool read_users(const char *path)
{
    int rc;

    simba__file_fini(&access_.file);
    for (size_t i = 0; i < KNOWN_MOST; i++) {
        free(access_.known[i].hash);
        access_.known[i].hash = NULL;
    }
    rc = simba__file_read(&access_.file, path, FILE_MOST);
    if (rc != 0) {
        access_.file = (struct simba__file){0};
        simba__say("--auth-file %s: %s", path, simba__file_problem(rc));
        return false;
    }
    if ((access_.file.status.st_mode & 07) != 0 ||
        (access_.file.status.st_mode & 020) != 0) {
        simba__say("--auth-file %s: others can read or change it; 'chmod 640 "
                   "%s' mends that",
                   path, path);
    } else if (check_lines(path)) {
        return true;
    }
    simba__file_fini(&access_.file);
    access_.file = (struct simba__file){0};
    return false;
}

/* Under the lock: was it changed? Then what is remembered is void. */
static void refresh(void)
{
    const struct stat *old = &access_.file.status;
    struct stat now;

    if (stat(access_.given.auth_file, &now) == 0 &&
        access_.file.bytes != NULL && now.st_ino == old->st_ino &&
        now.st_mtim.tv_sec == old->st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == old->st_mtim.tv_nsec) {
        return;
    }
    (void)read_users(access_.given.auth_file);
}

bool simba__access_start(const struct simba__access *access)
{
    bool is_read;

    access_.given = *access;
    (void)gethostname(access_.host, sizeof access_.host - 1);
    make_hex(access_.key, KEY_BYTES);
    (void)snprintf(access_.salt, sizeof access_.salt, "$5$rounds=1000$");
    make_hex(access_.salt + strlen(access_.salt), 8);
    if (access->auth_file == NULL) {
        return true;
    }
    (void)pthread_mutex_lock(&access_.lock);
    is_read = read_users(access->auth_file);
    (void)pthread_mutex_unlock(&access_.lock);
    return is_read;
}

/* --- who ----------------------------------------------------------------- */

/* The hash of a text by a setting, to be freed; NULL. */
static char *hash_of(const char *text, const char *setting)
{
    struct crypt_data *data = calloc(1, sizeof *data);
    const char *hash = data == NULL ? NULL : crypt_r(text, setting, data);
    char *copy = hash == NULL || hash[0] == '*' ? NULL : strdup(hash);

    if (data != NULL) {
        explicit_bzero(data, sizeof *data);
    }
    free(data);
    return copy;
}

static char *hash_quickly(const char *user, const char *password)
{
    char *text = NULL, *hash;

    if (asprintf(&text, "%zu:%s:%s", strlen(user), user, password) < 0) {
        return NULL;
    }
    hash = hash_of(text, access_.salt);
    simba__secret_free(text);
    return hash;
}

/* Is he remembered? */
static bool is_known(const char *user, const char *password)
{
    char *hash = hash_quickly(user, password);
    bool is_found = false;

    (void)pthread_mutex_lock(&access_.lock);
    refresh();
    for (size_t i = 0; hash != NULL && i < KNOWN_MOST; i++) {
        is_found = is_found || (access_.known[i].hash != NULL &&
                                simba__clock_ms() - access_.known[i].since_ms <
                                    KNOWN_FOR_MS &&
                                strcmp(access_.known[i].user, user) == 0 &&
                                is_same(access_.known[i].hash, hash));
    }
    (void)pthread_mutex_unlock(&access_.lock);
    free(hash);
    return is_found;
}

static void remember(const char *user, const char *password)
{
    struct known *known;

    (void)pthread_mutex_lock(&access_.lock);
    known = &access_.known[access_.next++ % KNOWN_MOST];
    free(known->hash);
    known->hash = hash_quickly(user, password);
    known->since_ms = simba__clock_ms();
    (void)snprintf(known->user, sizeof known->user, "%s", user);
    (void)pthread_mutex_unlock(&access_.lock);
}

enum simba__access_verdict simba__access_of(struct MHD_Connection *connection,
                                            char user[SIMBA__USER_ROOM])
{
    enum simba__access_verdict verdict = SIMBA__ACCESS_NO;
    char *name, *password = NULL;

    user[0] = '\0';
    if (access_.given.auth_header != NULL) {
        const char *value =
            simba__http_header(connection, access_.given.auth_header);

        (void)snprintf(user, SIMBA__USER_ROOM, "%s",
                       value == NULL ? "" : value);
        simba__calm(user);
        return user[0] == '\0' ? SIMBA__ACCESS_NO : SIMBA__ACCESS_YES;
    }
    if (access_.given.auth_file == NULL) {
        return SIMBA__ACCESS_YES;
    }
    name = MHD_basic_auth_get_username_password(connection, &password);
    if (name != NULL && password != NULL && name[0] != '\0' &&
        strlen(name) < SIMBA__USER_ROOM) {
        verdict =
            is_known(name, password) ? SIMBA__ACCESS_YES : SIMBA__ACCESS_CHECK;
        (void)snprintf(user, SIMBA__USER_ROOM, "%s", name);
    }
    MHD_free(name);
    MHD_free(password);
    return verdict;
}

/* A user who does not exist costs as much as one who does. */
bool simba__access_check(struct MHD_Connection *connection,
                         char user[SIMBA__USER_ROOM])
{
    char *password = NULL, *hash = NULL;
    char *name = MHD_basic_auth_get_username_password(connection, &password);
    char setting[CRYPT_OUTPUT_SIZE] = "";
    const char *line;
    size_t length = 0;
    bool is_user, is_right;

    if (name == NULL || password == NULL || name[0] == '\0') {
        MHD_free(name);
        MHD_free(password);
        return false;
    }
    (void)pthread_mutex_lock(&access_.lock);
    line = find_user(name, &length);
    is_user = line != NULL;
    line = is_user ? line : find_user("", &length);
    (void)snprintf(setting, sizeof setting, "%.*s", (int)length,
                   line == NULL ? "" : line);
    (void)pthread_mutex_unlock(&access_.lock);
    hash = hash_of(password, setting);
    is_right = hash != NULL && is_same(hash, setting) && is_user;
    if (is_right) {
        remember(name, password);
        (void)snprintf(user, SIMBA__USER_ROOM, "%s", name);
    }
    free(hash);
    explicit_bzero(password, strlen(password));
    MHD_free(name);
    MHD_free(password);
    return is_right;
}

/* --- whence -------------------------------------------------------------- */

static bool is_listed(const char *names, const char *name, size_t length)
{
    for (; names != NULL && *names != '\0';
         names += strcspn(names, ","), names += *names == ',') {
        if (strcspn(names, ",") == length &&
            strncasecmp(names, name, length) == 0) {
            return true;
        }
    }
    return false;
}

bool simba__access_is_host(const char *host)
{
    struct in6_addr address;
    char name[256];
    size_t length;

    if (host == NULL || *host == '\0' || strlen(host) >= sizeof name) {
        return false;
    }
    if (host[0] == '[') {
        length = strcspn(host + 1, "]");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, host + 1);
        return host[length + 1] == ']' &&
               inet_pton(AF_INET6, name, &address) == 1;
    }
    length = strcspn(host, ":");
    (void)snprintf(name, sizeof name, "%.*s", (int)length, host);
    return inet_pton(AF_INET, name, &address) == 1 ||
           strcasecmp(name, "localhost") == 0 ||
           strcasecmp(name, access_.host) == 0 ||
           is_listed(access_.given.hosts, name, length);
}

bool simba__access_may_break(void)
{
    return access_.given.may_break;
}

const char *simba__access_key(void)
{
    return access_.key;
}

bool simba__access_is_ours(struct MHD_Connection *connection)
{
    const char *key = simba__http_header(connection, "X-Simba-Key");
    const char *host = simba__http_header(connection, "Host");
    const char *origin = simba__http_header(connection, "Origin");
    const char *site = simba__http_header(connection, "Sec-Fetch-Site");
    const char *at = origin == NULL ? NULL : strstr(origin, "://");

    if (origin != NULL &&
        (at == NULL || host == NULL || strcasecmp(at + 3, host) != 0)) {
        return false;
    }
    return key != NULL && is_same(access_.key, key) &&
           (site == NULL || strcmp(site, "same-origin") == 0);
}
