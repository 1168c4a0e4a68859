/* Queries of names: a file's status, the target of a link, the entries of a directory. */

#include "observer.h"

#include <dirent.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <wordexp.h>

/* The status of an open file was recorded when it was opened. Every program queries it, so no path is determined
   here. */
void observer_saw_status(mode_t mode, dev_t device, ino_t inode)
{
    if (S_ISREG(mode))
        ADD_WORD('t', "", (long)device, (long)inode);
}

/* stat and its variants; an empty path stands for the descriptor. */
static void looked_up(char kind, int directory, const char *path, int result, mode_t mode, dev_t device, ino_t inode)
{
    int kept = errno;

    if (result && kept == EFAULT)
        return;
    if (path && *path)
        ADD_AT(kind, directory, path, result ? kept : 0, result ? 0 : (long)mode);
    else
        observer_uses(directory);
    if (!result && (!path || !*path))
        observer_saw_status(mode, device, inode);
    errno = kept;
}

#define STATUS(result, status) (result) ? 0 : (status)->st_mode, (result) ? 0 : (status)->st_dev, \
    (result) ? 0 : (status)->st_ino

#define STAT(name, kind, type) \
    int name(const char *path, struct type *status) \
    { \
        REAL(name, -1) \
        int result = real(path, status); \
        looked_up(kind, AT_FDCWD, path, result, STATUS(result, status)); \
        return result; \
    }
#define STAT_AT(name, type) \
    int name(int directory, const char *path, struct type *status, int flags) \
    { \
        REAL(name, -1) \
        int result = real(directory, path, status, flags); \
        looked_up(flags & AT_SYMLINK_NOFOLLOW ? 'h' : 's', directory, path, result, STATUS(result, status)); \
        return result; \
    }
#define STAT_OPEN(name, type) \
    int name(int descriptor, struct type *status) \
    { \
        REAL(name, -1) \
        int result = real(descriptor, status); \
        looked_up('s', descriptor, "", result, STATUS(result, status)); \
        return result; \
    }
/* Before glibc 2.33 the functions above were inline and called these, as NVIDIA's programs do. */
#define OLD_STAT(name, kind, type) \
    int name(int version, const char *path, struct type *status); \
    int name(int version, const char *path, struct type *status) \
    { \
        REAL(name, -1) \
        int result = real(version, path, status); \
        looked_up(kind, AT_FDCWD, path, result, STATUS(result, status)); \
        return result; \
    }
#define OLD_STAT_AT(name, type) \
    int name(int version, int directory, const char *path, struct type *status, int flags); \
    int name(int version, int directory, const char *path, struct type *status, int flags) \
    { \
        REAL(name, -1) \
        int result = real(version, directory, path, status, flags); \
        looked_up(flags & AT_SYMLINK_NOFOLLOW ? 'h' : 's', directory, path, result, STATUS(result, status)); \
        return result; \
    }
#define OLD_STAT_OPEN(name, type) \
    int name(int version, int descriptor, struct type *status); \
    int name(int version, int descriptor, struct type *status) \
    { \
        REAL(name, -1) \
        int result = real(version, descriptor, status); \
        looked_up('s', descriptor, "", result, STATUS(result, status)); \
        return result; \
    }

STAT(stat, 's', stat)
STAT(stat64, 's', stat64)
STAT(lstat, 'h', stat)
STAT(lstat64, 'h', stat64)
STAT_AT(fstatat, stat)
STAT_AT(fstatat64, stat64)
STAT_OPEN(fstat, stat)
STAT_OPEN(fstat64, stat64)
OLD_STAT(__xstat, 's', stat)
OLD_STAT(__xstat64, 's', stat64)
OLD_STAT(__lxstat, 'h', stat)
OLD_STAT(__lxstat64, 'h', stat64)
OLD_STAT_AT(__fxstatat, stat)
OLD_STAT_AT(__fxstatat64, stat64)
OLD_STAT_OPEN(__fxstat, stat)
OLD_STAT_OPEN(__fxstat64, stat64)

#ifdef STATX_TYPE
int statx(int directory, const char *path, int flags, unsigned mask, struct statx *status)
{
    REAL(statx, -1)
    int result = real(directory, path, flags, mask, status);

    looked_up(flags & AT_SYMLINK_NOFOLLOW ? 'h' : 's', directory, path, result, result ? 0 : status->stx_mode,
              result ? 0 : makedev(status->stx_dev_major, status->stx_dev_minor), result ? 0 : status->stx_ino);
    return result;
}
#endif

#define ACCESS(name, parameters, arguments, directory, asked) \
    int name parameters \
    { \
        REAL(name, -1) \
        int result = real arguments; \
        ADD_ANSWER('a', directory, path, result < 0, asked); \
        return result; \
    }

ACCESS(access, (const char *path, int mode), (path, mode), AT_FDCWD, mode)
ACCESS(eaccess, (const char *path, int mode), (path, mode), AT_FDCWD, mode)
ACCESS(euidaccess, (const char *path, int mode), (path, mode), AT_FDCWD, mode)
ACCESS(faccessat, (int directory, const char *path, int mode, int flags), (directory, path, mode, flags), directory, mode)

/* Free space, which is another number each time; but file systems such as sysfs have no blocks. libselinux asks
   for the kind of /sys/fs/selinux in most utilities. */
#define ROOM(name, type) \
    int name(const char *path, struct type *status) \
    { \
        REAL(name, -1) \
        int result = real(path, status); \
        ADD_ANSWER('a', AT_FDCWD, path, result < 0, F_OK); \
        if (!result && status->f_blocks) \
            asked_for_room(); \
        return result; \
    }
#define ROOM_OPEN(name, type) \
    int name(int descriptor, struct type *status) \
    { \
        REAL(name, -1) \
        int result = real(descriptor, status); \
        if (!result && status->f_blocks) \
            asked_for_room(); \
        return result; \
    }

static void asked_for_room(void)
{
    int kept = errno;

    ADD_WORD('y', "statfs", 0, observer_phase);
    errno = kept;
}

ROOM(statfs, statfs)
ROOM(statfs64, statfs64)
ROOM(statvfs, statvfs)
ROOM(statvfs64, statvfs64)
ROOM_OPEN(fstatfs, statfs)
ROOM_OPEN(fstatfs64, statfs64)
ROOM_OPEN(fstatvfs, statvfs)
ROOM_OPEN(fstatvfs64, statvfs64)

/* Extended attributes. */
#define ATTRIBUTES(name, parameters, arguments) \
    ssize_t name parameters \
    { \
        REAL(name, -1) \
        ssize_t result = real arguments; \
        ADD_ANSWER_ONLY('v', AT_FDCWD, path, result < 0 && errno != ENODATA && errno != ERANGE && errno != ENOTSUP); \
        return result; \
    }
#define ATTRIBUTES_OPEN(name, parameters, arguments) \
    ssize_t name parameters \
    { \
        REAL(name, -1) \
        struct stat status; \
        ssize_t result = real arguments; \
        /* Anything but a file with a name has no attributes that a user could have set. */ \
        if (raw_call(SYS_fstat, descriptor, (long)&status, 0, 0, 0, 0) >= 0 && status.st_nlink \
            && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) \
            ADD_ANSWER_ONLY('v', descriptor, "", 0); \
        return result; \
    }

ATTRIBUTES(getxattr, (const char *path, const char *name, void *value, size_t size), (path, name, value, size))
ATTRIBUTES(lgetxattr, (const char *path, const char *name, void *value, size_t size), (path, name, value, size))
ATTRIBUTES(listxattr, (const char *path, char *list, size_t size), (path, list, size))
ATTRIBUTES(llistxattr, (const char *path, char *list, size_t size), (path, list, size))
ATTRIBUTES_OPEN(fgetxattr, (int descriptor, const char *name, void *value, size_t size), (descriptor, name, value, size))
ATTRIBUTES_OPEN(flistxattr, (int descriptor, char *list, size_t size), (descriptor, list, size))

#define ANSWER(type, name, kind, parameters, arguments, directory, is_bad) \
    type name parameters \
    { \
        REAL(name, (type)-1) \
        type result = real arguments; \
        ADD_ANSWER_ONLY(kind, directory, path, is_bad); \
        return result; \
    }
#define ANSWER_POINTER(type, name, kind, parameters, arguments) \
    type *name parameters \
    { \
        REAL(name, NULL) \
        type *result = real arguments; \
        ADD_ANSWER_ONLY(kind, AT_FDCWD, path, !result); \
        return result; \
    }

ssize_t __readlink_chk(const char *path, char *room, size_t size, size_t real_size);
ssize_t __readlinkat_chk(int directory, const char *path, char *room, size_t size, size_t real_size);
char *__realpath_chk(const char *path, char *room, size_t real_size);

ANSWER(ssize_t, readlink, 'l', (const char *path, char *room, size_t size), (path, room, size), AT_FDCWD, result < 0)
ANSWER(ssize_t, __readlink_chk, 'l', (const char *path, char *room, size_t size, size_t real_size),
       (path, room, size, real_size), AT_FDCWD, result < 0)
ANSWER(ssize_t, readlinkat, 'l', (int directory, const char *path, char *room, size_t size),
       (directory, path, room, size), directory, result < 0)
ANSWER(ssize_t, __readlinkat_chk, 'l', (int directory, const char *path, char *room, size_t size, size_t real_size),
       (directory, path, room, size, real_size), directory, result < 0)
ANSWER_POINTER(char, realpath, 'r', (const char *path, char *room), (path, room))
ANSWER_POINTER(char, __realpath_chk, 'r', (const char *path, char *room, size_t real_size), (path, room, real_size))
ANSWER_POINTER(char, canonicalize_file_name, 'r', (const char *path), (path))

ANSWER_POINTER(DIR, opendir, 'd', (const char *path), (path))

DIR *fdopendir(int descriptor)
{
    REAL(fdopendir, NULL)
    DIR *result = real(descriptor);

    if (result)
        ADD_ANSWER_ONLY('d', descriptor, "", 0);
    return result;
}

ssize_t getdents64(int descriptor, void *room, size_t size)
{
    REAL(getdents64, -1)
    ssize_t result = real(descriptor, room, size);

    ADD_ANSWER_ONLY('d', descriptor, "", result < 0);
    return result;
}

#define SCAN(name, type) \
    int name(const char *path, struct type ***list, int (*select)(const struct type *), \
             int (*compare)(const struct type **, const struct type **)) \
    { \
        REAL(name, -1) \
        int result = real(path, list, select, compare); \
        ADD_ANSWER_ONLY('d', AT_FDCWD, path, result < 0); \
        return result; \
    }
#define SCAN_AT(name, type) \
    int name(int directory, const char *path, struct type ***list, int (*select)(const struct type *), \
             int (*compare)(const struct type **, const struct type **)) \
    { \
        REAL(name, -1) \
        int result = real(directory, path, list, select, compare); \
        ADD_ANSWER_ONLY('d', directory, path, result < 0); \
        return result; \
    }

SCAN(scandir, dirent)
SCAN(scandir64, dirent64)
SCAN_AT(scandirat, dirent)
SCAN_AT(scandirat64, dirent64)

/* The C library searches itself here, and only it knows where. */
#define UNOBSERVABLE(name, parameters, arguments) \
    int name parameters \
    { \
        REAL(name, -1) \
        observer_add('g', AT_FDCWD, path, 0, NULL); \
        return real arguments; \
    }

typedef int (*Failed)(const char *path, int error);
UNOBSERVABLE(glob, (const char *path, int flags, Failed failed, glob_t *found), (path, flags, failed, found))
UNOBSERVABLE(glob64, (const char *path, int flags, Failed failed, glob64_t *found), (path, flags, failed, found))
UNOBSERVABLE(ftw, (const char *path, __ftw_func_t visit, int depth), (path, visit, depth))
UNOBSERVABLE(ftw64, (const char *path, __ftw64_func_t visit, int depth), (path, visit, depth))
UNOBSERVABLE(nftw, (const char *path, __nftw_func_t visit, int depth, int flags), (path, visit, depth, flags))
UNOBSERVABLE(nftw64, (const char *path, __nftw64_func_t visit, int depth, int flags), (path, visit, depth, flags))
UNOBSERVABLE(wordexp, (const char *path, wordexp_t *found, int flags), (path, found, flags))

#define OPEN_TREES(type, entry, name) \
    type *name(char *const *paths, int options, int (*compare)(const entry **, const entry **)) \
    { \
        REAL(name, NULL) \
        observer_add('g', AT_FDCWD, paths[0], 0, NULL); \
        return real(paths, options, compare); \
    }

OPEN_TREES(FTS, FTSENT, fts_open)
OPEN_TREES(FTS64, FTSENT64, fts64_open)
