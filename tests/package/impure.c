/* Breaks both rules of the core, so that cmake/check_pure.cmake is seen to
 * notice: it asks the clock, and it remembers something between calls. */
#include <time.h>

long impure(void);

long impure(void)
{
    static long calls;

    calls++;
    return calls + (long)time(NULL);
}
