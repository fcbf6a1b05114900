// Preloaded into a program, it ends it at one of its writes to a disk, or has these fail for want of room.
//     FAULT_KILL_AT=N       SIGKILL when call number N is done; calls that write, flush, rename, remove or make count
//     FAULT_FULL_WHILE=F    writes of 64 KiB and more find no room as long as there is a file F: the disk is nearly full
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;
static long killAt = -1;
static const char *fullWhile;

__attribute__((constructor)) static void start(void) {
    const char *text = getenv("FAULT_KILL_AT");
    if (text) killAt = atol(text);
    fullWhile = getenv("FAULT_FULL_WHILE");
}

static void done(void) {
    if (atomic_fetch_add(&calls, 1) + 1 == killAt) kill(getpid(), SIGKILL);
}

static int isFile(int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

static int isFull(size_t count) { return count >= 64 << 10 && fullWhile && access(fullWhile, F_OK) == 0; }

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define WRITING(type, name, parameters, arguments)                                                                   \
    type name parameters {                                                                                           \
        static __typeof__(&name) next;                                                                               \
        if (!next) next = NEXT(name);                                                                                \
        if (!isFile(descriptor)) return next arguments;                                                              \
        if (isFull(count)) {                                                                                              \
            errno = ENOSPC;                                                                                          \
            return -1;                                                                                               \
        }                                                                                                            \
        type result = next arguments;                                                                                \
        done();                                                                                                      \
        return result;                                                                                               \
    }

#define CHANGING(name, parameters, arguments)                                                                        \
    int name parameters {                                                                                            \
        static __typeof__(&name) next;                                                                               \
        if (!next) next = NEXT(name);                                                                                \
        int result = next arguments;                                                                                 \
        done();                                                                                                      \
        return result;                                                                                               \
    }

WRITING(ssize_t, write, (int descriptor, const void *bytes, size_t count), (descriptor, bytes, count))
WRITING(ssize_t, pwrite, (int descriptor, const void *bytes, size_t count, off_t place),
        (descriptor, bytes, count, place))
WRITING(ssize_t, pwrite64, (int descriptor, const void *bytes, size_t count, off64_t place),
        (descriptor, bytes, count, place))
CHANGING(fsync, (int descriptor), (descriptor))
CHANGING(fdatasync, (int descriptor), (descriptor))
CHANGING(rename, (const char *from, const char *to), (from, to))
CHANGING(unlink, (const char *path), (path))
CHANGING(rmdir, (const char *path), (path))
CHANGING(mkdir, (const char *path, mode_t mode), (path, mode))
CHANGING(ftruncate64, (int descriptor, off64_t size), (descriptor, size))
