/* Opening, creating and changing files. */

#include "observer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

static void changed(char kind, int directory, const char *path, int result);

/* Whether a file of any type has this name or, if `is_file`, whether the name leads to a regular file. */
static int lies(int directory, const char *path, int is_file)
{
    struct stat status;
    int flags = is_file ? 0 : AT_SYMLINK_NOFOLLOW;

    return path && raw_call(SYS_newfstatat, directory, (long)path, (long)&status, flags, 0, 0) >= 0
           && (!is_file || S_ISREG(status.st_mode));
}

static void opens(int directory, const char *path, int flags)
{
    if (flags & O_TRUNC && lies(directory, path, 1))
        observer_add('z', directory, path, 0, NULL);
}

void observer_opened_file(int directory, const char *path, int flags, int descriptor)
{
    struct stat status;

    if (!path)  /* freopen without a path opens the same file again */
        return;
    if (descriptor < 0) {
        if (errno != EFAULT)
            ADD_AT('o', directory, path, errno, flags);
        return;
    }
    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        changed('W', directory, path, 0);
    else if (flags & O_TRUNC)
        observer_add('w', directory, path, 0, NULL);
    /* By descriptor, since the path may lead to another file by now. */
    if (raw_call(SYS_fstat, descriptor, (long)&status, 0, 0, 0, 0) < 0)
        observer_lose("a file was closed by another thread");
    else {
        ADD_AT('o', directory, path, 0, flags, (long)status.st_dev, (long)status.st_ino, status.st_mode, status.st_size,
               status.st_mtim.tv_sec * 1000000000L + status.st_mtim.tv_nsec,
               status.st_ctim.tv_sec * 1000000000L + status.st_ctim.tv_nsec);
        /* The path may lead to an inherited descriptor in /dev/fd. Opening it counts as reading, since mmap and stdio
           are not observed. */
        if ((flags & O_ACCMODE) != O_WRONLY && !(flags & O_PATH)
            && (!strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6)))
            observer_reads(&status);
    }
    if (!observer_phase && (flags & O_ACCMODE) != O_WRONLY)
        observer_opened(path);
}

#define OPENS(name, directory, parameters, arguments, more) \
    int name parameters; \
    int name parameters \
    { \
        more \
        REAL(name, -1) \
        opens(directory, path, flags); \
        int descriptor = real arguments; \
        observer_opened_file(directory, path, flags, descriptor); \
        return descriptor; \
    }
#define MODE \
    mode_t mode = 0; \
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) { \
        va_list list; \
        va_start(list, flags); \
        mode = va_arg(list, mode_t); \
        va_end(list); \
    }
#define OPEN(name) OPENS(name, AT_FDCWD, (const char *path, int flags, ...), (path, flags, mode), MODE)
#define OPEN_AT(name) \
    OPENS(name, directory, (int directory, const char *path, int flags, ...), (directory, path, flags, mode), MODE)
#define CREATE(name) \
    OPENS(name, AT_FDCWD, (const char *path, mode_t mode), (path, mode), int flags = O_CREAT | O_WRONLY | O_TRUNC;)

OPEN(open)
OPEN(open64)
OPEN(__open)
OPEN(__open64)
OPEN_AT(openat)
OPEN_AT(openat64)
/* Called with -D_FORTIFY_SOURCE. */
OPENS(__open_2, AT_FDCWD, (const char *path, int flags), (path, flags),)
OPENS(__open64_2, AT_FDCWD, (const char *path, int flags), (path, flags),)
OPENS(__openat_2, directory, (int directory, const char *path, int flags), (directory, path, flags),)
OPENS(__openat64_2, directory, (int directory, const char *path, int flags), (directory, path, flags),)
CREATE(creat)
CREATE(creat64)

static int flags_of(const char *mode)
{
    int flags = strchr(mode, '+') ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;

    if (mode[0] != 'r')
        flags |= O_CREAT | (mode[0] == 'w' ? O_TRUNC : O_APPEND);
    return strchr(mode, 'x') ? flags | O_EXCL : flags;
}

#define OPEN_STREAM(name, parameters, arguments) \
    FILE *name parameters \
    { \
        REAL(name, NULL) \
        opens(AT_FDCWD, path, flags_of(mode)); \
        FILE *stream = real arguments; \
        observer_opened_file(AT_FDCWD, path, flags_of(mode), stream ? fileno(stream) : -1); \
        return stream; \
    }

OPEN_STREAM(fopen, (const char *path, const char *mode), (path, mode))
OPEN_STREAM(fopen64, (const char *path, const char *mode), (path, mode))
OPEN_STREAM(freopen, (const char *path, const char *mode, FILE *old), (path, mode, old))
OPEN_STREAM(freopen64, (const char *path, const char *mode, FILE *old), (path, mode, old))

/* Files whose names the C library chooses. The name is in `path` when the function returns. */
#define MADE_UP(name, parameters, arguments) \
    int name parameters \
    { \
        REAL(name, -1) \
        int descriptor = real arguments; \
        if (descriptor >= 0) \
            observer_opened_file(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL, descriptor); \
        return descriptor; \
    }

MADE_UP(mkstemp, (char *path), (path))
MADE_UP(mkstemp64, (char *path), (path))
MADE_UP(mkstemps, (char *path, int suffix), (path, suffix))
MADE_UP(mkstemps64, (char *path, int suffix), (path, suffix))
MADE_UP(mkostemp, (char *path, int flags), (path, flags))
MADE_UP(mkostemp64, (char *path, int flags), (path, flags))
MADE_UP(mkostemps, (char *path, int suffix, int flags), (path, suffix, flags))
MADE_UP(mkostemps64, (char *path, int suffix, int flags), (path, suffix, flags))

AFTER(if (result) changed('w', AT_FDCWD, path, 0), char *, NULL, mkdtemp, (char *path), (path))

/* Record what has this name; links are not followed. */
static void look(int directory, const char *path)
{
    struct stat status;
    long error = -raw_call(SYS_newfstatat, directory, (long)path, (long)&status, AT_SYMLINK_NOFOLLOW, 0, 0);

    if (error != EFAULT && *path)
        ADD_AT('h', directory, path, error, error ? 0 : (long)status.st_mode);
}

/* Whether a call that creates or removes a name failed because of what has this name. If so, the call told the program
   the same as a lookup of the name. */
static int is_recorded_as_lookup(int error)
{
    return error == EEXIST || error == ENOENT || error == ENOTDIR || error == EISDIR || error == ENOTEMPTY;
}

/* Record a call that created a file ('w'), created it under a free name ('W') or changed its status ('u'), or its
   error. */
static void changed(char kind, int directory, const char *path, int result)
{
    if (!result) {
        if (kind == 'W')
            ADD_AT('h', directory, path, ENOENT, 0);
        observer_add(kind == 'u' ? 'u' : 'w', directory, path, 0, NULL);
    } else if (kind != 'u' && is_recorded_as_lookup(errno)) {
        look(directory, path);
    } else if (errno != EFAULT && *path) {
        ADD_AT('a', directory, path, errno, F_OK);
    }
}

/* Record that a call removed a name, or why it failed. */
static void went(int directory, const char *path, int result)
{
    if (result && is_recorded_as_lookup(errno))
        look(directory, path);
    else if (!result || (errno != EFAULT && *path))
        ADD_AT('a', directory, path, result ? errno : 0, F_OK);
    if (!result)
        observer_add('z', directory, path, 0, NULL);
}

#define CHANGING(done, name, parameters, arguments) \
    int name parameters; \
    int name parameters \
    { \
        REAL(name, -1) \
        int result = real arguments; \
        done; \
        return result; \
    }
#define CHANGE(kind, name, parameters, arguments, directory, path) \
    CHANGING(changed(kind, directory, path, result), name, parameters, arguments)
#define MAKE(...) CHANGE('W', __VA_ARGS__)
#define REMOVE(name, parameters, arguments, directory) \
    CHANGING(went(directory, path, result), name, parameters, arguments)
/* A call that renames a file, perhaps over another file, or exchanges two names. */
#define RENAME(name, parameters, arguments, from, to, flags) \
    int name parameters \
    { \
        REAL(name, -1) \
        int lay = lies(to, path, 0), is_exchange = (flags) & RENAME_EXCHANGE, result = real arguments; \
        if (is_exchange) \
            changed('w', from, old, result); \
        else \
            went(from, old, result); \
        if (lay && !result && !is_exchange) \
            observer_add('z', to, path, 0, NULL); \
        changed((flags) & RENAME_NOREPLACE ? 'W' : 'w', to, path, result); \
        return result; \
    }
/* A call that gives a file a second name. */
#define LINK(name, parameters, arguments, from, to) \
    CHANGING(linked(from, old, to, path, result), name, parameters, arguments)

static void linked(int from, const char *old, int to, const char *path, int result)
{
    look(from, old);
    changed('W', to, path, result);
}

MAKE(mkdir, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
MAKE(mkdirat, (int directory, const char *path, mode_t mode), (directory, path, mode), directory, path)
MAKE(mkfifo, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
MAKE(mkfifoat, (int directory, const char *path, mode_t mode), (directory, path, mode), directory, path)
MAKE(mknod, (const char *path, mode_t mode, dev_t device), (path, mode, device), AT_FDCWD, path)
MAKE(mknodat, (int directory, const char *path, mode_t mode, dev_t device), (directory, path, mode, device), directory,
     path)
MAKE(__xmknod, (int version, const char *path, mode_t mode, dev_t *device), (version, path, mode, device), AT_FDCWD, path)
MAKE(__xmknodat, (int version, int directory, const char *path, mode_t mode, dev_t *device),
     (version, directory, path, mode, device), directory, path)
MAKE(symlink, (const char *target, const char *path), (target, path), AT_FDCWD, path)
MAKE(symlinkat, (const char *target, int to, const char *path), (target, to, path), to, path)
LINK(link, (const char *old, const char *path), (old, path), AT_FDCWD, AT_FDCWD)
LINK(linkat, (int from, const char *old, int to, const char *path, int flags), (from, old, to, path, flags), from, to)
RENAME(rename, (const char *old, const char *path), (old, path), AT_FDCWD, AT_FDCWD, 0)
RENAME(renameat, (int from, const char *old, int to, const char *path), (from, old, to, path), from, to, 0)
RENAME(renameat2, (int from, const char *old, int to, const char *path, unsigned flags), (from, old, to, path, flags),
       from, to, flags)
REMOVE(unlink, (const char *path), (path), AT_FDCWD)
REMOVE(unlinkat, (int directory, const char *path, int flags), (directory, path, flags), directory)
REMOVE(rmdir, (const char *path), (path), AT_FDCWD)
REMOVE(remove, (const char *path), (path), AT_FDCWD)

/* Calls that change a file's dates, length, mode, owner or attributes. An open file is named by its descriptor. */
#define UPDATE(name, parameters, arguments) CHANGE('u', name, parameters, arguments, AT_FDCWD, path)
#define UPDATE_AT(name, parameters, arguments) CHANGE('u', name, parameters, arguments, directory, path ? path : "")
#define UPDATE_OPEN(name, parameters, arguments) CHANGE('u', name, parameters, arguments, descriptor, "")

UPDATE(utime, (const char *path, const struct utimbuf *times), (path, times))
UPDATE(utimes, (const char *path, const struct timeval times[2]), (path, times))
UPDATE(lutimes, (const char *path, const struct timeval times[2]), (path, times))
UPDATE(truncate, (const char *path, off_t size), (path, size))
UPDATE(truncate64, (const char *path, off64_t size), (path, size))
UPDATE(chmod, (const char *path, mode_t mode), (path, mode))
UPDATE(chown, (const char *path, uid_t owner, gid_t group), (path, owner, group))
UPDATE(lchown, (const char *path, uid_t owner, gid_t group), (path, owner, group))
UPDATE(setxattr, (const char *path, const char *name, const void *value, size_t size, int flags),
       (path, name, value, size, flags))
UPDATE(lsetxattr, (const char *path, const char *name, const void *value, size_t size, int flags),
       (path, name, value, size, flags))
UPDATE_AT(utimensat, (int directory, const char *path, const struct timespec times[2], int flags),
          (directory, path, times, flags))
UPDATE_AT(futimesat, (int directory, const char *path, const struct timeval times[2]), (directory, path, times))
UPDATE_AT(fchmodat, (int directory, const char *path, mode_t mode, int flags), (directory, path, mode, flags))
UPDATE_AT(fchownat, (int directory, const char *path, uid_t owner, gid_t group, int flags),
          (directory, path, owner, group, flags))
UPDATE_OPEN(futimens, (int descriptor, const struct timespec times[2]), (descriptor, times))
UPDATE_OPEN(futimes, (int descriptor, const struct timeval times[2]), (descriptor, times))
UPDATE_OPEN(fchmod, (int descriptor, mode_t mode), (descriptor, mode))
UPDATE_OPEN(fchown, (int descriptor, uid_t owner, gid_t group), (descriptor, owner, group))
UPDATE_OPEN(fsetxattr, (int descriptor, const char *name, const void *value, size_t size, int flags),
            (descriptor, name, value, size, flags))
