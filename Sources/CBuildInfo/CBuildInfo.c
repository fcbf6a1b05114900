#include "CBuildInfo.h"

const char *anabranch_commit(void) { return ANABRANCH_COMMIT; }
