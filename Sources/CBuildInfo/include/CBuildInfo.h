#ifndef CBUILDINFO_H
#define CBUILDINFO_H

/// The commit that was built, as `ANABRANCH_COMMIT` in the environment of the build said; otherwise "unknown".
const char *anabranch_commit(void);

/// The arguments of the process, the name of the program first; ends with NULL. Swift reads them from /proc, which a
/// root directory that has nothing but the program does not have.
char **anabranch_arguments(void);

#endif
