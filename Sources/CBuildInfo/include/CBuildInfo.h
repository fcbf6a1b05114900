#ifndef CBUILDINFO_H
#define CBUILDINFO_H

/// The commit that was built, as `ANABRANCH_COMMIT` in the environment of the build said; otherwise "unknown".
const char *anabranch_commit(void);

#endif
