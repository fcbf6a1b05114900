#include "CBuildInfo.h"

const char *anabranch_commit(void) { return ANABRANCH_COMMIT; }

static char **arguments = 0;

// The system's libraries call it with what they call `main` with.
__attribute__((constructor)) static void keep_arguments(int count, char **values) {
    (void)count;
    arguments = values;
}

char **anabranch_arguments(void) { return arguments; }
