/* TLS as a filter of bytes. OpenSSL sees memory only: it would write to a
 * socket without MSG_NOSIGNAL, and a library must not raise SIGPIPE. */
#include "backends/redis/redis.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

struct simba__redis_tls_context {
    SSL_CTX *ssl;
    bool is_verified;
};

struct simba__redis_tls {
    SSL *ssl;
    BIO *in, *out; /* owned by ssl */
};

/* The first of OpenSSL's own words for what went wrong, and forget the rest. */
static const char *last_words(void)
{
    unsigned long code = ERR_get_error();
    const char *words = code == 0 ? NULL : ERR_reason_error_string(code);

    ERR_clear_error();
    return words == NULL ? "no reason given" : words;
}

static int load_files(SSL_CTX *ssl,
                      const struct simba__redis_settings *settings,
                      simba_error *error)
{
    if (settings->tls.ca == NULL) {
        SSL_CTX_set_default_verify_paths(ssl);
    } else if (SSL_CTX_load_verify_locations(ssl, settings->tls.ca, NULL) !=
               1) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "redis: CA file %s: %s", settings->tls.ca,
                               last_words());
    }
    if (settings->tls.cert == NULL) {
        return SIMBA_OK;
    }
    if (SSL_CTX_use_certificate_chain_file(ssl, settings->tls.cert) != 1) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "redis: certificate file %s: %s",
                               settings->tls.cert, last_words());
    }
    if (SSL_CTX_use_PrivateKey_file(ssl, settings->tls.key, SSL_FILETYPE_PEM) !=
            1 ||
        SSL_CTX_check_private_key(ssl) != 1) {
        return simba_error_set(error, SIMBA_EMISCONFIG, 0,
                               "redis: key file %s: %s", settings->tls.key,
                               last_words());
    }
    return SIMBA_OK;
}

int simba__redis_tls_context_open(const struct simba__redis_settings *settings,
                                  simba__redis_tls_context **out,
                                  simba_error *error)
{
    simba__redis_tls_context *context;
    int rc;

    *out = NULL;
    if (!settings->tls.is_on) {
        return SIMBA_OK;
    }
    ERR_clear_error();
    context = calloc(1, sizeof *context);
    if (context == NULL ||
        (context->ssl = SSL_CTX_new(TLS_client_method())) == NULL) {
        free(context);
        return simba_error_set(error, SIMBA_ENOMEM, 0, "redis: out of memory");
    }
    context->is_verified = settings->tls.is_verified;
    SSL_CTX_set_min_proto_version(context->ssl, TLS1_2_VERSION);
    SSL_CTX_set_verify(
        context->ssl,
        settings->tls.is_verified ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    rc = load_files(context->ssl, settings, error);
    if (rc != SIMBA_OK) {
        simba__redis_tls_context_close(context);
        return rc;
    }
    *out = context;
    return SIMBA_OK;
}

void simba__redis_tls_context_close(simba__redis_tls_context *context)
{
    if (context != NULL) {
        SSL_CTX_free(context->ssl);
        free(context);
    }
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
    simba__redis_tls *tls = calloc(1, sizeof *tls);

    if (tls == NULL) {
        return NULL;
    }
    ERR_clear_error();
    tls->ssl = SSL_new(context->ssl);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (tls->ssl == NULL || tls->in == NULL || tls->out == NULL ||
        (context->is_verified && !expect_host(tls->ssl, host))) {
        SSL_free(tls->ssl);
        BIO_free(tls->in);
        BIO_free(tls->out);
        free(tls);
        return NULL;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_connect_state(tls->ssl);
    return tls;
}

void simba__redis_tls_close(simba__redis_tls *tls)
{
    if (tls != NULL) {
        SSL_free(tls->ssl);
        free(tls);
    }
}

static bool drain(simba__redis_tls *tls, struct simba__redis_buffer *wire)
{
    char bytes[4096];
    int count;

    while ((count = BIO_read(tls->out, bytes, sizeof bytes)) > 0) {
        if (!simba__redis_buffer_add(wire, bytes, (size_t)count)) {
            return false;
        }
    }
    return true;
}

/* Why the two could not agree: ours not to trust, or theirs. */
static int explain(const simba__redis_tls *tls, simba_error *error)
{
    long verdict = SSL_get_verify_result(tls->ssl);
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
    rc = SSL_do_handshake(tls->ssl);
    why = rc == 1 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, rc);
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
    return BIO_write(tls->in, bytes, (int)count) == (int)count;
}

int simba__redis_tls_read(simba__redis_tls *tls,
                          char *bytes,
                          int room,
                          simba_error *error)
{
    int count;

    ERR_clear_error();
    count = SSL_read(tls->ssl, bytes, room);
    if (count > 0) {
        return count;
    }
    switch (SSL_get_error(tls->ssl, count)) {
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
        if (SSL_write(tls->ssl, plain->bytes, (int)plain->length) !=
            (int)plain->length) {
            return false;
        }
        plain->length = 0;
    }
    return drain(tls, wire);
}
