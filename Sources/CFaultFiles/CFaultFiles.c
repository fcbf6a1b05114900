#include "CFaultFiles.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

typedef struct folder {
    char *path;
    fault_files_observer observer;
    void *context;
    struct folder *next;
} folder;

/// A file as SQLite knows it; that of the system's VFS is behind it in the same block.
typedef struct {
    sqlite3_file base;
    /// NULL if nobody observes it.
    folder *folder;
    /// SQLite keeps it as long as the file.
    const char *path;
} file;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static folder *folders;
static sqlite3_vfs *system_vfs;
static sqlite3_vfs vfs;

static folder *folder_of(const char *path) {
    if (path == NULL) return NULL;
    pthread_mutex_lock(&lock);
    folder *found = folders;
    for (; found != NULL; found = found->next) {
        size_t length = strlen(found->path);
        if (strncmp(path, found->path, length) == 0 && path[length] == '/') break;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static int tell(
    folder *folder, const char *path, fault_files_call call, long long offset, const void *bytes, int *count) {
    if (folder == NULL) return SQLITE_OK;
    return folder->observer(folder->context, call, path, offset, bytes, count);
}

static int tell_of(sqlite3_file *of, fault_files_call call, long long offset) {
    int count = 0;
    return tell(((file *)of)->folder, ((file *)of)->path, call, offset, NULL, &count);
}

static sqlite3_file *system_file(sqlite3_file *of) { return (sqlite3_file *)((file *)of + 1); }

// MARK: Methods of a file

static int close_file(sqlite3_file *of) {
    sqlite3_file *under = system_file(of);
    return under->pMethods == NULL ? SQLITE_OK : under->pMethods->xClose(under);
}

static int read_file(sqlite3_file *of, void *bytes, int count, sqlite3_int64 offset) {
    return system_file(of)->pMethods->xRead(system_file(of), bytes, count, offset);
}

static int write_file(sqlite3_file *of, const void *bytes, int count, sqlite3_int64 offset) {
    int written = count;
    int result = tell(((file *)of)->folder, ((file *)of)->path, FAULT_FILES_WRITE, offset, bytes, &written);
    if (result != SQLITE_OK && (written <= 0 || written >= count)) return result;
    int ours = system_file(of)->pMethods->xWrite(system_file(of), bytes, written, offset);
    return result != SQLITE_OK ? result : ours;
}

static int truncate_file(sqlite3_file *of, sqlite3_int64 size) {
    int result = tell_of(of, FAULT_FILES_TRUNCATE, size);
    return result != SQLITE_OK ? result : system_file(of)->pMethods->xTruncate(system_file(of), size);
}

static int sync_file(sqlite3_file *of, int flags) {
    int result = tell_of(of, FAULT_FILES_SYNC, 0);
    return result != SQLITE_OK ? result : system_file(of)->pMethods->xSync(system_file(of), flags);
}

static int file_size(sqlite3_file *of, sqlite3_int64 *size) {
    return system_file(of)->pMethods->xFileSize(system_file(of), size);
}

static int lock_file(sqlite3_file *of, int level) {
    return system_file(of)->pMethods->xLock(system_file(of), level);
}

static int unlock_file(sqlite3_file *of, int level) {
    return system_file(of)->pMethods->xUnlock(system_file(of), level);
}

static int check_reserved_lock(sqlite3_file *of, int *result) {
    return system_file(of)->pMethods->xCheckReservedLock(system_file(of), result);
}

static int file_control(sqlite3_file *of, int operation, void *argument) {
    return system_file(of)->pMethods->xFileControl(system_file(of), operation, argument);
}

static int sector_size(sqlite3_file *of) { return system_file(of)->pMethods->xSectorSize(system_file(of)); }

static int device_characteristics(sqlite3_file *of) {
    return system_file(of)->pMethods->xDeviceCharacteristics(system_file(of));
}

static int map_shared(sqlite3_file *of, int region, int size, int extends, void volatile **memory) {
    return system_file(of)->pMethods->xShmMap(system_file(of), region, size, extends, memory);
}

static int lock_shared(sqlite3_file *of, int offset, int count, int flags) {
    return system_file(of)->pMethods->xShmLock(system_file(of), offset, count, flags);
}

static void barrier(sqlite3_file *of) { system_file(of)->pMethods->xShmBarrier(system_file(of)); }

static int unmap_shared(sqlite3_file *of, int deletes) {
    return system_file(of)->pMethods->xShmUnmap(system_file(of), deletes);
}

/// Nothing is mapped: what SQLite wrote there would be seen by nobody.
static int fetch(sqlite3_file *of, sqlite3_int64 offset, int count, void **memory) {
    *memory = NULL;
    return SQLITE_OK;
}

static int unfetch(sqlite3_file *of, sqlite3_int64 offset, void *memory) { return SQLITE_OK; }

static const sqlite3_io_methods methods = {
    3, close_file, read_file, write_file, truncate_file, sync_file, file_size, lock_file, unlock_file,
    check_reserved_lock, file_control, sector_size, device_characteristics, map_shared, lock_shared, barrier,
    unmap_shared, fetch, unfetch,
};

// MARK: The VFS

static int open_file(sqlite3_vfs *of, const char *path, sqlite3_file *opened, int flags, int *flags_out) {
    file *result = (file *)opened;
    result->base.pMethods = NULL;
    result->folder = folder_of(path);
    result->path = path;
    int count = 0;
    int failure = tell(result->folder, path, FAULT_FILES_OPEN, 0, NULL, &count);
    if (failure != SQLITE_OK) return failure;
    sqlite3_file *under = system_file(opened);
    under->pMethods = NULL;
    int code = system_vfs->xOpen(system_vfs, path, under, flags, flags_out);
    if (under->pMethods != NULL) result->base.pMethods = &methods;
    return code;
}

static int delete_file(sqlite3_vfs *of, const char *path, int syncs) {
    int count = 0;
    int result = tell(folder_of(path), path, FAULT_FILES_DELETE, 0, NULL, &count);
    return result != SQLITE_OK ? result : system_vfs->xDelete(system_vfs, path, syncs);
}

/// The other methods of the system's VFS do not look at the VFS that they are given.
static void make_default(void) {
    system_vfs = sqlite3_vfs_find(NULL);
    vfs = *system_vfs;
    vfs.zName = "anabranch-fault-files";
    vfs.szOsFile = (int)sizeof(file) + system_vfs->szOsFile;
    vfs.pNext = NULL;
    vfs.xOpen = open_file;
    vfs.xDelete = delete_file;
    sqlite3_vfs_register(&vfs, 1);
}

void *fault_files_begin(const char *path, fault_files_observer observer, void *context) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    folder *new = malloc(sizeof(folder));
    char *copy = strdup(path);
    if (new == NULL || copy == NULL) {
        free(new);
        free(copy);
        return NULL;
    }
    *new = (folder){copy, observer, context, NULL};
    pthread_once(&once, make_default);
    pthread_mutex_lock(&lock);
    new->next = folders;
    folders = new;
    pthread_mutex_unlock(&lock);
    return new;
}

void fault_files_end(void *registration) {
    pthread_mutex_lock(&lock);
    for (folder **place = &folders; *place != NULL; place = &(*place)->next) {
        if (*place != registration) continue;
        folder *ended = *place;
        *place = ended->next;
        free(ended->path);
        free(ended);
        break;
    }
    pthread_mutex_unlock(&lock);
}
