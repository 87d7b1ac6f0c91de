/* OpenSSL sees memory only: it would write to a socket without MSG_NOSIGNAL,
 * and a library must not raise SIGPIPE. See tls.h.
 * A module of its own, simba_tls.so. */
#include "kit/tls.h"

#include "util/array.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <arpa/inet.h>
#include <limits.h>
#include <string.h>

/* The first of OpenSSL's own words for what went wrong, and forget the rest. */
static const char *last_words(void)
{
    unsigned long code = ERR_get_error();
    const char *words = code == 0 ? NULL : ERR_reason_error_string(code);

    ERR_clear_error();
    return words == NULL ? "no reason given" : words;
}

static int refuse_file(const char *what, const char *path, simba_error *error)
{
    return simba_error_set(error, SIMBA_EMISCONFIG, 0, "%s file %s: %s", what,
                           path, last_words());
}

static int load_files(SSL_CTX *ssl,
                      const struct simba__tls_settings *tls,
                      simba_error *error)
{
    if (tls->ca == NULL) {
        if (tls->is_verified) { /* they are many, and take their time */
            SSL_CTX_set_default_verify_paths(ssl);
        }
    } else if (SSL_CTX_load_verify_locations(ssl, tls->ca, NULL) != 1) {
        return refuse_file("CA", tls->ca, error);
    }
    if (tls->cert == NULL) {
        return SIMBA_OK;
    }
    if (SSL_CTX_use_certificate_chain_file(ssl, tls->cert) != 1) {
        return refuse_file("certificate", tls->cert, error);
    }
    return SSL_CTX_use_PrivateKey_file(ssl, tls->key, SSL_FILETYPE_PEM) == 1 &&
                   SSL_CTX_check_private_key(ssl) == 1
               ? SIMBA_OK
               : refuse_file("key", tls->key, error);
}

/* As TLS wants it: its length before it. */
static bool set_protocol(SSL_CTX *ssl, const char *protocol)
{
    unsigned char list[256];
    size_t length = protocol == NULL ? 0 : strlen(protocol);

    if (length == 0 || length >= sizeof list) {
        return length == 0;
    }
    list[0] = (unsigned char)length;
    memcpy(list + 1, protocol, length);
    return SSL_CTX_set_alpn_protos(ssl, list, (unsigned)length + 1) == 0;
}

static int open_context(const struct simba__tls_settings *tls,
                        const char *store,
                        simba__tls_context **out,
                        simba_error *error)
{
    simba_error why;
    int rc = SIMBA_OK;

    ERR_clear_error();
    *out = SSL_CTX_new(TLS_client_method());
    if (*out == NULL || !set_protocol(*out, tls->protocol)) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "%s: out of memory",
                               store);
    }
    SSL_CTX_set_min_proto_version(*out, TLS1_2_VERSION);
    SSL_CTX_set_verify(
        *out, tls->is_verified ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    rc = load_files(*out, tls, &why);
    return rc == SIMBA_OK ? SIMBA_OK
                          : simba_error_set(error, rc, why.native, "%s: %s",
                                            store, why.message);
}

/* The certificate must be for this very host. */
static bool expect_host(SSL *ssl, const char *host)
{
    unsigned char address[16];

    if (inet_pton(AF_INET, host, address) == 1 ||
        inet_pton(AF_INET6, host, address) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    }
    return SSL_set1_host(ssl, host) == 1 &&
           SSL_set_tlsext_host_name(ssl, host) == 1;
}

/* --- the filter ---------------------------------------------------------- */

static void *open_tls(void *context, const char *host)
{
    SSL *ssl;
    BIO *in, *out;

    ERR_clear_error();
    ssl = SSL_new(context);
    in = BIO_new(BIO_s_mem());
    out = BIO_new(BIO_s_mem());
    if (ssl == NULL || in == NULL || out == NULL ||
        (SSL_get_verify_mode(ssl) == SSL_VERIFY_PEER &&
         !expect_host(ssl, host))) {
        SSL_free(ssl);
        BIO_free(in);
        BIO_free(out);
        return NULL;
    }
    SSL_set_bio(ssl, in, out); /* which owns them now */
    SSL_set_connect_state(ssl);
    return ssl;
}

static void close_tls(void *tls)
{
    SSL_free(tls);
}

/* Why the two could not agree: ours not to trust, or theirs. */
static int explain(const SSL *tls, simba_error *error)
{
    long verdict = SSL_get_verify_result(tls);
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);

    if (verdict != X509_V_OK && SSL_get_verify_mode(tls) == SSL_VERIFY_PEER) {
        ERR_clear_error();
        return simba_error_set(error, SIMBA_EMISCONFIG, (int)verdict,
                               "the server's certificate is not trusted: %s",
                               X509_verify_cert_error_string(verdict));
    }
    if (reason == SSL_R_WRONG_VERSION_NUMBER) {
        ERR_clear_error();
        return simba_error_set(
            error, SIMBA_EMISCONFIG, 0,
            "the server does not speak TLS: name its port for "
            "TLS, or take TLS out of the URL");
    }
    if (reason > SSL_AD_REASON_OFFSET) { /* an alert: the server's refusal */
        return simba_error_set(error, SIMBA_EDENIED, 0,
                               "the server refuses our TLS: %s", last_words());
    }
    /* What is cut short is no error here: before TLS is agreed upon, only what
     * the server says can be one. */
    return simba_error_set(
        error, SSL_is_init_finished(tls) ? SIMBA_EUNAVAIL : SIMBA_EMISCONFIG, 0,
        "TLS failed: %s", last_words());
}

static int shake_hands(void *tls, simba_error *error)
{
    int rc, why;

    ERR_clear_error();
    rc = SSL_do_handshake(tls);
    why = rc == 1 ? SSL_ERROR_NONE : SSL_get_error(tls, rc);
    if (rc == 1) {
        return 1;
    }
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE
               ? 0
               : explain(tls, error);
}

static bool feed(void *tls, const char *bytes, size_t size)
{
    return BIO_write(SSL_get_rbio(tls), bytes, (int)size) == (int)size;
}

static int read_plain(void *tls, char *bytes, size_t room, simba_error *error)
{
    int count;

    ERR_clear_error();
    count = SSL_read(tls, bytes, room > INT_MAX ? INT_MAX : (int)room);
    if (count > 0) {
        return count;
    }
    switch (SSL_get_error(tls, count)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        return simba_error_set(error, SIMBA_EUNAVAIL, 0,
                               "the server closed the connection");
    default:
        return explain(tls, error);
    }
}

static bool write_plain(void *tls, const char *bytes, size_t size)
{
    size_t count;

    ERR_clear_error();
    return SSL_write_ex(tls, bytes, size, &count) == 1 && count == size;
}

static size_t drain(void *tls, char *bytes, size_t room)
{
    int count = BIO_read(SSL_get_wbio(tls), bytes,
                         room > INT_MAX ? INT_MAX : (int)room);

    return count > 0 ? (size_t)count : 0;
}

const struct simba__tls_module simba_tls_module = {
    .version = SIMBA__TLS_VERSION,
    .open = open_context,
    .close = SSL_CTX_free,
    .filter = {.abi = SIMBA_BACKEND_ABI,
               .open = open_tls,
               .handshake = shake_hands,
               .feed = feed,
               .read = read_plain,
               .write = write_plain,
               .drain = drain,
               .close = close_tls},
};
