/* The slot of a mutex: CRC-16 (XMODEM) of the hash tag, as the cluster
 * specification has it. */
#include "backends/redis/cluster.h"

#include <string.h>

enum { SLOTS = 16384, POLYNOMIAL = 0x1021 };

/* The keys begin with "simba:{mutex}"; the tag ends at the first "}", which a
 * mutex may contain but not begin with. */
unsigned simba__redis_slot_of(const char *mutex)
{
    size_t length = strcspn(mutex, "}");
    unsigned crc = 0;

    for (size_t i = 0; i < length; i++) {
        crc ^= (unsigned)(unsigned char)mutex[i] << 8;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 0x8000U) != 0 ? crc << 1 ^ POLYNOMIAL : crc << 1;
        }
        crc &= 0xffffU;
    }
    return crc % SLOTS;
}
