#ifndef CFAULTFILES_H
#define CFAULTFILES_H

/// The operations of SQLite on a file that can fail, or that are lost if the machine loses power before a flush.
typedef enum {
    FAULT_FILES_OPEN,
    FAULT_FILES_WRITE,
    FAULT_FILES_TRUNCATE,
    FAULT_FILES_SYNC,
    FAULT_FILES_DELETE,
} fault_files_call;

/// Is told of each call before it is made, on the thread that makes it.
///
/// @param context what `fault_files_begin` was given.
/// @param path of the file.
/// @param offset where bytes are written, or the new size of the file.
/// @param bytes what is written.
/// @param count how many bytes that are. If the call is to fail, so many of them are written all the same as this says
///     afterwards: 0, unless it is set.
/// @return SQLITE_OK for a call that is made; otherwise the result code that SQLite gets.
typedef int (*fault_files_observer)(
    void *context, fault_files_call call, const char *path, long long offset, const void *bytes, int *count);

/// From now on an observer is told what SQLite does to files in a folder that it opens from now on. SQLite does so
/// through a VFS of this library, which becomes the default one of the process, and hands on all else as it is.
///
/// @param folder without a slash at its end; with all links resolved.
/// @return what `fault_files_end` needs; NULL if there is no memory.
void *fault_files_begin(const char *folder, fault_files_observer observer, void *context);

/// Ends that. No file of the folder may be open any more.
void fault_files_end(void *registration);

#endif
