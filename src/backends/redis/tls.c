/* TLS as a filter of bytes. OpenSSL sees memory only: it would write to a
 * socket without MSG_NOSIGNAL, and a library must not raise SIGPIPE. */
#include "backends/redis/redis.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <arpa/inet.h>
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
    return simba_error_set(error, SIMBA_EMISCONFIG, 0, "redis: %s file %s: %s",
                           what, path, last_words());
}

static int load_files(SSL_CTX *ssl,
                      const struct simba__tls_settings *tls,
                      simba_error *error)
{
    if (tls->ca == NULL) {
        SSL_CTX_set_default_verify_paths(ssl);
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

int simba__redis_tls_context_open(const struct simba__redis_settings *settings,
                                  simba__redis_tls_context **out,
                                  simba_error *error)
{
    const struct simba__tls_settings *tls = &settings->tls;

    *out = NULL;
    if (!tls->is_on) {
        return SIMBA_OK;
    }
    ERR_clear_error();
    *out = SSL_CTX_new(TLS_client_method());
    if (*out == NULL) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "redis: out of memory");
    }
    SSL_CTX_set_min_proto_version(*out, TLS1_2_VERSION);
    SSL_CTX_set_verify(
        *out, tls->is_verified ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    return load_files(*out, tls, error);
}

void simba__redis_tls_context_close(simba__redis_tls_context *context)
{
    SSL_CTX_free(context);
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

simba__redis_tls *simba__redis_tls_open(simba__redis_tls_context *context,
                                        const char *host)
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

void simba__redis_tls_close(simba__redis_tls *tls)
{
    SSL_free(tls);
}

static bool drain(simba__redis_tls *tls, struct simba__redis_buffer *wire)
{
    char bytes[4096];
    int count;

    while ((count = BIO_read(SSL_get_wbio(tls), bytes, sizeof bytes)) > 0) {
        if (!simba__redis_buffer_add(wire, bytes, (size_t)count)) {
            return false;
        }
    }
    return true;
}

/* Why the two could not agree: ours not to trust, or theirs. */
static int explain(const simba__redis_tls *tls, simba_error *error)
{
    long verdict = SSL_get_verify_result(tls);
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);

    if (verdict != X509_V_OK) {
        ERR_clear_error();
        return simba_error_set(error, SIMBA_EMISCONFIG, (int)verdict,
                               "the server's certificate is not trusted: %s",
                               X509_verify_cert_error_string(verdict));
    }
    if (reason == SSL_R_WRONG_VERSION_NUMBER) {
        ERR_clear_error();
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "the server does not speak TLS");
    }
    if (reason > SSL_AD_REASON_OFFSET) { /* an alert: the server's refusal */
        return simba_error_set(error, SIMBA_EDENIED, 0,
                               "the server refuses our TLS: %s", last_words());
    }
    return simba_error_set(error, SIMBA_EUNAVAIL, 0, "TLS failed: %s",
                           last_words());
}

int simba__redis_tls_handshake(simba__redis_tls *tls,
                               struct simba__redis_buffer *wire,
                               simba_error *error)
{
    int rc, why;

    ERR_clear_error();
    rc = SSL_do_handshake(tls);
    why = rc == 1 ? SSL_ERROR_NONE : SSL_get_error(tls, rc);
    if (!drain(tls, wire)) {
        return simba_error_set(error, SIMBA_ENOMEM, 0, "out of memory");
    }
    if (rc == 1) {
        return 1;
    }
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE
               ? 0
               : explain(tls, error);
}

bool simba__redis_tls_feed(simba__redis_tls *tls,
                           const char *bytes,
                           size_t count)
{
    return BIO_write(SSL_get_rbio(tls), bytes, (int)count) == (int)count;
}

int simba__redis_tls_read(simba__redis_tls *tls,
                          char *bytes,
                          int room,
                          simba_error *error)
{
    int count;

    ERR_clear_error();
    count = SSL_read(tls, bytes, room);
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

bool simba__redis_tls_write(simba__redis_tls *tls,
                            struct simba__redis_buffer *plain,
                            struct simba__redis_buffer *wire)
{
    ERR_clear_error();
    if (plain->length > 0) {
        if (SSL_write(tls, plain->bytes, (int)plain->length) !=
            (int)plain->length) {
            return false;
        }
        plain->length = 0;
    }
    return drain(tls, wire);
}
