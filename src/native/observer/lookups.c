/* Lookups of paths: a file's status, the target of a link, and the entries of a directory. */

#include "observer.h"

#include <dirent.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <wordexp.h>

/* stat and its variants. An empty path means the file of the descriptor, which was recorded when it was opened. */
static void looked_up(char kind, int directory, const char *path, int result, mode_t mode)
{
    if (result && errno == EFAULT)
        return;
    if (path && *path)
        ADD_ANSWER(kind, directory, path, result, result ? 0 : (long)mode);
}

#define STAT(name, kind, directory, parameters, arguments) \
    AFTER(looked_up(kind, directory, path, result, result ? 0 : status->st_mode), int, -1, name, parameters, arguments)
#define KIND (flags & AT_SYMLINK_NOFOLLOW ? 'h' : 's')
/* Before glibc 2.33, stat and its variants were inline and called __xstat and the like, as NVIDIA's programs do. */
#define STATS(type) \
    STAT(type, 's', AT_FDCWD, (const char *path, struct type *status), (path, status)) \
    STAT(l##type, 'h', AT_FDCWD, (const char *path, struct type *status), (path, status)) \
    STAT(__x##type, 's', AT_FDCWD, (int version, const char *path, struct type *status), (version, path, status)) \
    STAT(__lx##type, 'h', AT_FDCWD, (int version, const char *path, struct type *status), (version, path, status))

STATS(stat)
STATS(stat64)
STAT(fstatat, KIND, directory, (int directory, const char *path, struct stat *status, int flags),
     (directory, path, status, flags))
STAT(fstatat64, KIND, directory, (int directory, const char *path, struct stat64 *status, int flags),
     (directory, path, status, flags))
STAT(__fxstatat, KIND, directory,
     (int version, int directory, const char *path, struct stat *status, int flags),
     (version, directory, path, status, flags))
STAT(__fxstatat64, KIND, directory,
     (int version, int directory, const char *path, struct stat64 *status, int flags),
     (version, directory, path, status, flags))

#ifdef STATX_TYPE
AFTER(looked_up(KIND, directory, path, result, result ? 0 : status->stx_mode), int, -1, statx,
      (int directory, const char *path, int flags, unsigned mask, struct statx *status),
      (directory, path, flags, mask, status))
#endif

#define ACCESS(name, parameters, arguments, directory) \
    AFTER(ADD_ANSWER('a', directory, path, result < 0, mode), int, -1, name, parameters, arguments)

ACCESS(access, (const char *path, int mode), (path, mode), AT_FDCWD)
ACCESS(eaccess, (const char *path, int mode), (path, mode), AT_FDCWD)
ACCESS(euidaccess, (const char *path, int mode), (path, mode), AT_FDCWD)
ACCESS(faccessat, (int directory, const char *path, int mode, int flags), (directory, path, mode, flags), directory)

/* Extended attributes, which input records do not contain. */
#define ATTRIBUTES(name, parameters, arguments) \
    BEFORE(ADD_WORD('k', "", SYS_##name), ssize_t, -1, name, parameters, arguments)

ATTRIBUTES(getxattr, (const char *path, const char *name, void *value, size_t size), (path, name, value, size))
ATTRIBUTES(lgetxattr, (const char *path, const char *name, void *value, size_t size), (path, name, value, size))
ATTRIBUTES(listxattr, (const char *path, char *list, size_t size), (path, list, size))
ATTRIBUTES(llistxattr, (const char *path, char *list, size_t size), (path, list, size))
ATTRIBUTES(fgetxattr, (int descriptor, const char *name, void *value, size_t size), (descriptor, name, value, size))
ATTRIBUTES(flistxattr, (int descriptor, char *list, size_t size), (descriptor, list, size))

#define ANSWER(type, failure, name, kind, parameters, arguments, directory, is_bad) \
    AFTER(ADD_ANSWER_ONLY(kind, directory, path, is_bad), type, failure, name, parameters, arguments)
#define LINK(name, parameters, arguments, directory) \
    ANSWER(ssize_t, -1, name, 'l', parameters, arguments, directory, result < 0)
#define REAL_PATH(name, parameters, arguments) \
    ANSWER(char *, NULL, name, 'r', parameters, arguments, AT_FDCWD, !result)

LINK(readlink, (const char *path, char *room, size_t size), (path, room, size), AT_FDCWD)
LINK(__readlink_chk, (const char *path, char *room, size_t size, size_t real_size), (path, room, size, real_size),
     AT_FDCWD)
LINK(readlinkat, (int directory, const char *path, char *room, size_t size), (directory, path, room, size), directory)
LINK(__readlinkat_chk, (int directory, const char *path, char *room, size_t size, size_t real_size),
     (directory, path, room, size, real_size), directory)
REAL_PATH(realpath, (const char *path, char *room), (path, room))
REAL_PATH(__realpath_chk, (const char *path, char *room, size_t real_size), (path, room, real_size))
REAL_PATH(canonicalize_file_name, (const char *path), (path))

#define LIST(type, failure, name, parameters, arguments, directory, is_bad) \
    ANSWER(type, failure, name, 'd', parameters, arguments, directory, is_bad)

LIST(DIR *, NULL, opendir, (const char *path), (path), AT_FDCWD, !result)
AFTER(ADD_ANSWER_ONLY('d', descriptor, "", result < 0), ssize_t, -1, getdents64,
      (int descriptor, void *room, size_t size), (descriptor, room, size))
AFTER(if (result) ADD_ANSWER_ONLY('d', descriptor, "", 0), DIR *, NULL, fdopendir, (int descriptor), (descriptor))

#define SCANS(type, name, name_at) \
    LIST(int, -1, name, \
         (const char *path, struct type ***list, int (*select)(const struct type *), \
          int (*compare)(const struct type **, const struct type **)), \
         (path, list, select, compare), AT_FDCWD, result < 0) \
    LIST(int, -1, name_at, \
         (int directory, const char *path, struct type ***list, int (*select)(const struct type *), \
          int (*compare)(const struct type **, const struct type **)), \
         (directory, path, list, select, compare), directory, result < 0)

SCANS(dirent, scandir, scandirat)
SCANS(dirent64, scandir64, scandirat64)

/* These functions search directories inside the C library, unobserved. */
#define UNOBSERVABLE(name, parameters, arguments) \
    BEFORE(observer_add('g', AT_FDCWD, path, 0, NULL), int, -1, name, parameters, arguments)

typedef int (*Failed)(const char *path, int error);
UNOBSERVABLE(glob, (const char *path, int flags, Failed failed, glob_t *found), (path, flags, failed, found))
UNOBSERVABLE(glob64, (const char *path, int flags, Failed failed, glob64_t *found), (path, flags, failed, found))
UNOBSERVABLE(ftw, (const char *path, __ftw_func_t visit, int depth), (path, visit, depth))
UNOBSERVABLE(ftw64, (const char *path, __ftw64_func_t visit, int depth), (path, visit, depth))
UNOBSERVABLE(nftw, (const char *path, __nftw_func_t visit, int depth, int flags), (path, visit, depth, flags))
UNOBSERVABLE(nftw64, (const char *path, __nftw64_func_t visit, int depth, int flags), (path, visit, depth, flags))
UNOBSERVABLE(wordexp, (const char *path, wordexp_t *found, int flags), (path, found, flags))

#define OPEN_TREES(type, entry, name) \
    BEFORE(observer_add('g', AT_FDCWD, paths[0], 0, NULL), type *, NULL, name, \
           (char *const *paths, int options, int (*compare)(const entry **, const entry **)), (paths, options, compare))

OPEN_TREES(FTS, FTSENT, fts_open)
OPEN_TREES(FTS64, FTSENT64, fts64_open)
