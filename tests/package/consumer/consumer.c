/* The smallest program of a user: one header, one call into the library. */
#include <simba.h>

#include <stdio.h>

int main(void)
{
    simba_owner owner = simba_owner_none();

    if (!simba_owner_set_id(&owner, "consumer")) {
        return 1;
    }
    printf("simba %s\n", SIMBA_VERSION_STRING);
    return simba_owner_is_owner(&owner, "consumer") ? 0 : 1;
}
