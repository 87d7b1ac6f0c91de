/* Who owns a mutex, as it changes, without contending for it. Ends with the
 * input:
 *
 *     watch nightly-report */
#include <simba.h>
#include <stdio.h>

static void tell(void *user, const simba_state *state)
{
    (void)user;
    if (state->has_gap)
        puts("(others may have been owners in between)");
    if (state->after.token != 0)
        printf("%s owns it, token %llu\n", state->after.id,
               (unsigned long long)state->after.token);
    else
        puts("free");
}

int main(int argc, char **argv)
{
    simba_retriever retriever = SIMBA_RETRIEVER_INIT;
    SIMBA_STORE_SCOPE simba_store *store = NULL;
    SIMBA_RETRIEVAL_SCOPE simba_retrieval *retrieval = NULL;
    simba_error error;

    if (argc != 2)
        return fprintf(stderr, "usage: watch MUTEX\n"), 64;
    setvbuf(stdout, NULL, _IOLBF, 0);
    retriever.mutex = argv[1];
    retriever.on_changed = tell;
    if (simba_store_open(NULL, NULL, &store, &error) != SIMBA_OK ||
        simba_retrieval_open(store, &retriever, &retrieval, &error) != 0 ||
        simba_retrieval_start(retrieval, &error) != SIMBA_OK)
        return fprintf(stderr, "%s\n", error.message), 78;
    while (getchar() != EOF)
        continue;
    return 0;
}
