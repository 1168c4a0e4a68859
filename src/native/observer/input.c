/* Uses of what a process inherits: its standard input, and descriptors that were open when it started. Their content
   cannot be checked before the next run, in which a descriptor that is closed now may be open. */

#include "observer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define FIRST 3  /* after the standard streams, of which only the content of the standard input counts */
#define LAST 19

static struct {
    dev_t device;
    ino_t inode;
} given[LAST + 1];

static int status_of(int descriptor, struct stat *status)
{
    return raw_call(SYS_fstat, descriptor, (long)status, 0, 0, 0, 0) >= 0;
}

static int is_given(int descriptor, const struct stat *status)
{
    return status->st_ino == given[descriptor].inode && status->st_dev == given[descriptor].device;
}

void observer_note_inputs(void)
{
    struct stat status;
    int descriptor;

    for (descriptor = 0; descriptor <= LAST; descriptor++)
        if (status_of(descriptor, &status)) {
            given[descriptor].device = status.st_dev;
            given[descriptor].inode = status.st_ino;
        }
}

/* Compares files instead of descriptors, since the program may read from a copy of a descriptor. */
void observer_reads(const struct stat *status)
{
    int descriptor;

    for (descriptor = 0; descriptor <= LAST; descriptor++)
        if (is_given(descriptor, status)) {
            ADD_WORD('i', "", (long)status->st_dev, (long)status->st_ino);
            return;
        }
}

void observer_uses(int descriptor)
{
    struct stat status;

    if (descriptor < FIRST || descriptor > LAST)
        return;
    if (!status_of(descriptor, &status) || is_given(descriptor, &status))
        ADD_WORD('j', "", descriptor);
}

static void reads(int descriptor)
{
    struct stat status;

    if (status_of(descriptor, &status))
        observer_reads(&status);
    else
        observer_uses(descriptor);
}

/* Reads by stdio functions bypass these wrappers, but after a read, the stream has a buffer. */
void observer_streams(void)
{
    if (stdin && __fbufsize(stdin) > 0)
        reads(fileno(stdin));
}

/* Reads of other streams are not observed, so opening a stream counts as reading. */
BEFORE(reads(from), FILE *, NULL, fdopen, (int from, const char *mode), (from, mode))

#define READ(type, name, parameters, arguments) BEFORE(reads(from), type, -1, name, parameters, arguments)
#define USE(type, name, parameters, arguments) BEFORE(observer_uses(from), type, -1, name, parameters, arguments)

USE(int, dup, (int from), (from))
USE(int, dup2, (int from, int to), (from, to))
USE(int, dup3, (int from, int to, int flags), (from, to, flags))
USE(ssize_t, write, (int from, const void *text, size_t size), (from, text, size))

#define FCNTL(name) \
    int name(int descriptor, int what, ...) \
    { \
        va_list list; \
        REAL(name, -1) \
        va_start(list, what); \
        void *more = va_arg(list, void *); \
        va_end(list); \
        if (what != F_SETFD) \
            observer_uses(descriptor); \
        return real(descriptor, what, more); \
    }

FCNTL(fcntl)
FCNTL(fcntl64)
READ(ssize_t, read, (int from, void *room, size_t size), (from, room, size))
READ(ssize_t, __read, (int from, void *room, size_t size), (from, room, size))
READ(ssize_t, __read_chk, (int from, void *room, size_t size, size_t real_size), (from, room, size, real_size))
READ(ssize_t, readv, (int from, const struct iovec *parts, int count), (from, parts, count))
READ(ssize_t, pread, (int from, void *room, size_t size, off_t at), (from, room, size, at))
READ(ssize_t, pread64, (int from, void *room, size_t size, off64_t at), (from, room, size, at))
READ(ssize_t, splice, (int from, off64_t *at, int to, off64_t *place, size_t size, unsigned flags),
     (from, at, to, place, size, flags))
READ(ssize_t, sendfile, (int to, int from, off_t *at, size_t size), (to, from, at, size))
READ(ssize_t, sendfile64, (int to, int from, off_t *at, size_t size), (to, from, at, size))
READ(ssize_t, copy_file_range, (int from, off64_t *at, int to, off64_t *place, size_t size, unsigned flags),
     (from, at, to, place, size, flags))
