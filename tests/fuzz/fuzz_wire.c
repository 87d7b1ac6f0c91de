/* A store whose server says anything: one request, from its opening to its
 * end. The first byte chooses the request, the rest is what the server says
 * (still_loop.h). STORE_URLS are what may be opened, one of them chosen by the
 * second byte. */
#define _GNU_SOURCE
#include "fixtures/log_nothing.h"
#include "fuzz/still_loop.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS_MOST = 2000, DEADLINE_MS = 5000 };

static simba_request make_request(uint8_t choice)
{
    static const enum simba_request_kind kinds[] = {
        SIMBA_ACQUIRE, SIMBA_RENEW, SIMBA_RELEASE, SIMBA_LEAVE,
        SIMBA_READ,    SIMBA_LIST,  SIMBA_BREAK,   SIMBA_DOCTOR,
        SIMBA_INIT,    SIMBA_TELL,  SIMBA_TOLD,    SIMBA_BREAKS};
    static const uint32_t needs[] = {[SIMBA_INIT] = SIMBA_CAN_INIT,
                                     [SIMBA_TELL] = SIMBA_CAN_TELL,
                                     [SIMBA_TOLD] = SIMBA_CAN_TELL,
                                     [SIMBA_BREAKS] = SIMBA_TELLS_BREAKS};
    simba_request request = SIMBA_REQUEST_INIT;
    bool is_of_all;

    request.kind = kinds[(choice & 15) % (sizeof kinds / sizeof kinds[0])];
    if ((~simba_module.capabilities & needs[request.kind]) != 0) {
        request.kind = SIMBA_READ;
    }
    is_of_all = request.kind == SIMBA_LIST || request.kind == SIMBA_DOCTOR ||
                request.kind == SIMBA_INIT;
    request.mutex = is_of_all ? "" : "m";
    request.id = "me";
    request.attempt = (simba_attempt){1, 2};
    request.token = 7;
    request.ttl_ms = 5000;
    request.transition_ms = 5000;
    request.waiter_ms = 5000;
    request.deadline_ms = simba_loop_now_ms() + DEADLINE_MS;
    request.join = (choice & 16) != 0;
    request.want_queue = true;
    request.now = (choice & 32) != 0;
    request.upgrade = (choice & 64) != 0;
    request.reason = "";
    return request;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const urls[] = {STORE_URLS};
    static char loop; /* nobody looks into it */
    simba_backend_config config = {.loop = (simba_loop *)(void *)&loop,
                                   .log = log_nothing};
    simba_backend *backend = NULL;
    simba_request request;
    simba_error error;
    bool is_done = false;

    if (size < 2) {
        return 0;
    }
    config.url = urls[data[1] % (sizeof urls / sizeof urls[0])];
    config.rest = strchr(config.url, ':') + 1;
    still_begin(data + 2, size - 2, STORE_SERVER_BEGINS);
    if (simba_module.open(&config, &backend, &error) == SIMBA_OK) {
        request = make_request(data[0]);
        if (simba_module.subscription != NULL && (data[0] & 128) != 0) {
            simba_module.subscription(backend, "m", SIMBA_SUBSCRIBE_OBSERVE);
        }
        simba_module.submit(backend, &request);
        for (int i = 0; i < STEPS_MOST && still_step(); i++) {
            is_done = still_status != INT32_MAX;
            if (is_done && (i & 31) == 31) {
                break; /* what comes after it matters a little, too */
            }
        }
        if (still_status == INT32_MAX &&
            simba_loop_now_ms() > request.deadline_ms + 1000) {
            abort(); /* its deadline has passed */
        }
        simba_module.detach(backend);
        simba_module.close(backend);
        if (still_status == INT32_MAX) {
            abort(); /* nobody would ever hear of it */
        }
    }
    still_end();
    return 0;
}
