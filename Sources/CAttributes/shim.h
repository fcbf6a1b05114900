#if __has_include(<sys/xattr.h>)
#include <sys/xattr.h>
#endif
#ifdef __linux__
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/// The time when a file or folder was made, in nanoseconds since 1970; 0 where it is not known.
static inline long long anabranch_birth_time(const char *path) {
#ifdef __linux__
    struct statx found;
    if (syscall(SYS_statx, AT_FDCWD, path, 0, STATX_BTIME, &found) == 0 && found.stx_mask & STATX_BTIME)
        return found.stx_btime.tv_sec * 1000000000LL + found.stx_btime.tv_nsec;
#endif
    return 0;
}

/// The number of the mount that a file or folder is on; 0 where it is not known.
static inline unsigned long long anabranch_mount(const char *path) {
#if defined(__linux__) && defined(STATX_MNT_ID)
    struct statx found;
    if (syscall(SYS_statx, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &found) == 0
        && found.stx_mask & STATX_MNT_ID)
        return found.stx_mnt_id;
#endif
    return 0;
}

/// Has the disk begin with what was written to a part of a file. It is on the disk only after a flush.
static inline void anabranch_begin_flush(int descriptor, long long place, long long count) {
#ifdef __linux__
    syscall(SYS_sync_file_range, descriptor, place, count, 2 /* SYNC_FILE_RANGE_WRITE */);
#endif
}
