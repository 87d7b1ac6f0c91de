/* Lets the memory run out. */
#ifndef SIMBA_TESTS_NO_MEMORY_H
#define SIMBA_TESTS_NO_MEMORY_H

#include <stdbool.h>

/** While it is set, malloc(), calloc() and realloc() of the objects under test
 * fail. */
extern bool no_memory;

#endif
