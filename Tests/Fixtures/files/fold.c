// Preloaded into a program, it has the disk take capital letters for small ones below the folder FOLD_BELOW, as other
// systems do: a name stands for the one that is there, and keeps its letters if none is.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

// Writes the path under which the disk knows another one.
static const char *folded(const char *path, char *result) {
    const char *below = getenv("FOLD_BELOW");
    size_t length = below ? strlen(below) : 0;
    if (!below || strncmp(path, below, length) != 0 || path[length] != '/' || strlen(path) >= 4096) return path;
    strcpy(result, below);
    char rest[4096], *place = NULL;
    strcpy(rest, path + length);
    for (char *name = strtok_r(rest, "/", &place); name; name = strtok_r(NULL, "/", &place)) {
        DIR *folder = NEXT(opendir)(result);
        const char *known = name;
        struct dirent *entry;
        while (folder && (entry = readdir(folder)))
            if (strcasecmp(entry->d_name, name) == 0) known = entry->d_name;
        strcat(strcat(result, "/"), known);
        if (folder) closedir(folder);
    }
    return result;
}

#define FOLDING(type, name, parameters, ...)                                                                         \
    type name parameters {                                                                                           \
        char place[8192];                                                                                            \
        path = folded(path, place);                                                                                  \
        return NEXT(name)(__VA_ARGS__);                                                                              \
    }

FOLDING(int, lstat, (const char *path, struct stat *status), path, status)
FOLDING(int, mkdir, (const char *path, mode_t mode), path, mode)
FOLDING(int, unlink, (const char *path), path)
FOLDING(int, rmdir, (const char *path), path)
FOLDING(int, chmod, (const char *path, mode_t mode), path, mode)
FOLDING(DIR *, opendir, (const char *path), path)

int rename(const char *path, const char *target) {
    char one[8192], other[8192];
    return NEXT(rename)(folded(path, one), folded(target, other));
}

int open(const char *path, int flags, ...) {
    char place[8192];
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return NEXT(open)(folded(path, place), flags, mode);
}
