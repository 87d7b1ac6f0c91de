/* The runtime as a store sees it, without a thread and with a clock that only
 * moves when nothing else is left to do; and the server that it connects to,
 * which says what the fuzzer makes up. */
#ifndef TESTS_FUZZ_STILL_LOOP_H
#define TESTS_FUZZ_STILL_LOOP_H

#include <simba/sys/backend.h>

/** What the server will say: pieces, each a length of two bytes, the low one
 * first, and so many bytes. A piece is sent whenever the client has said
 * something; 0xffff hangs up. Without pieces nobody listens any more. */
void still_begin(const uint8_t *pieces, size_t size, bool server_begins);

/** One step. False: nothing will ever happen again. */
bool still_step(void);

/** Forget everything, the clock too. */
void still_end(void);

/** How the last request ended; INT32_MAX: it has not. */
extern int still_status;

#endif
