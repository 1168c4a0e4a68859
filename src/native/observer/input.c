/* What a process inherits: its standard input, and descriptors that were open when it started. Their content is in no
   file that could be checked, and a descriptor that is closed now may be open the next time. */

#include "observer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define FIRST 3  /* after the standard streams; only the standard input counts of those */
#define LAST 19

static struct {
    int number;
    dev_t device;
    ino_t inode;
    char is_recorded;
} given[LAST - FIRST + 2];
static unsigned count_of_given;
static volatile int untold;

static void note(int descriptor)
{
    struct stat status;

    if (raw_call(SYS_fstat, descriptor, (long)&status, 0, 0, 0, 0) < 0)
        return;
    given[count_of_given].number = descriptor;
    given[count_of_given].device = status.st_dev;
    given[count_of_given++].inode = status.st_ino;
    untold++;
}

void observer_note_inputs(void)
{
    int descriptor;

    note(0);
    for (descriptor = FIRST; descriptor <= LAST; descriptor++)
        note(descriptor);
}

void observer_reads(const struct stat *status)
{
    unsigned at;

    observer_takes_input(status);
    for (at = 0; at < count_of_given; at++)
        if (status->st_ino == given[at].inode && status->st_dev == given[at].device
            && !__atomic_test_and_set(&given[at].is_recorded, __ATOMIC_RELAXED)) {
            __atomic_sub_fetch(&untold, 1, __ATOMIC_RELAXED);
            ADD_WORD('i', "", (long)status->st_dev, (long)status->st_ino);
        }
}

/* Record that an inherited descriptor was used, or, if the number is negative, that it was not open: no call in which
   a program other than a compiler does so has a record. */
static void used(int number)
{
    unsigned at;

    if (number < 0)
        ADD_WORD('i', "", 0, 0, -number);
    for (at = 0; number > 0 && at < count_of_given; at++)
        if (given[at].number == number)
            ADD_WORD('i', "", (long)given[at].device, (long)given[at].inode, number);
}

/* The number of an inherited descriptor, its negative if it is not open, and 0 for others. */
static int of_caller(int descriptor)
{
    struct stat status;
    unsigned at;

    if (descriptor < FIRST || descriptor > LAST)
        return 0;
    if (raw_call(SYS_fstat, descriptor, (long)&status, 0, 0, 0, 0) < 0)
        return -descriptor;
    for (at = 0; at < count_of_given; at++)
        if (given[at].number == descriptor && status.st_ino == given[at].inode && status.st_dev == given[at].device) {
            observer_takes_input(&status);
            return descriptor;
        }
    return 0;
}

void observer_uses(int descriptor)
{
    int kept = errno;

    used(of_caller(descriptor));
    errno = kept;
}

/* For any descriptor, which may be a copy. */
static void reads(int descriptor)
{
    struct stat status;

    if (raw_call(SYS_fstat, descriptor, (long)&status, 0, 0, 0, 0) < 0)
        observer_uses(descriptor);
    else if (untold)
        observer_reads(&status);
}

/* Functions of streams bypass these wrappers, but a stream has a buffer once it has been read. */
void observer_streams(void)
{
    if (untold && stdin && __fbufsize(stdin) > 0)
        reads(fileno(stdin));
}

/* Reads of another stream are not observed, so opening one counts. */
FILE *fdopen(int descriptor, const char *mode)
{
    int kept = errno;
    REAL(fdopen, NULL)
    if (mode[0] == 'r')
        reads(descriptor);
    errno = kept;
    return real(descriptor, mode);
}

#define READ(type, name, parameters, arguments, descriptor) \
    type name parameters; \
    type name parameters \
    { \
        int kept = errno; \
        REAL(name, -1) \
        reads(descriptor); \
        errno = kept; \
        return real arguments; \
    }

#define USE(type, name, parameters, arguments, descriptor) \
    type name parameters \
    { \
        REAL(name, -1) \
        observer_uses(descriptor); \
        return real arguments; \
    }

USE(int, dup, (int from), (from), from)
USE(int, dup2, (int from, int to), (from, to), from)
USE(int, dup3, (int from, int to, int flags), (from, to, flags), from)
USE(ssize_t, write, (int to, const void *text, size_t size), (to, text, size), to)
USE(off_t, lseek, (int in, off_t place, int whence), (in, place, whence), in)
USE(off64_t, lseek64, (int in, off64_t place, int whence), (in, place, whence), in)
USE(int, flock, (int of, int how), (of, how), of)

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
READ(ssize_t, read, (int from, void *room, size_t size), (from, room, size), from)
READ(ssize_t, __read, (int from, void *room, size_t size), (from, room, size), from)
READ(ssize_t, __read_chk, (int from, void *room, size_t size, size_t real_size), (from, room, size, real_size), from)
READ(ssize_t, readv, (int from, const struct iovec *parts, int count), (from, parts, count), from)
READ(ssize_t, pread, (int from, void *room, size_t size, off_t at), (from, room, size, at), from)
READ(ssize_t, pread64, (int from, void *room, size_t size, off64_t at), (from, room, size, at), from)
READ(ssize_t, splice, (int from, off64_t *at, int to, off64_t *place, size_t size, unsigned flags),
     (from, at, to, place, size, flags), from)
READ(ssize_t, sendfile, (int to, int from, off_t *at, size_t size), (to, from, at, size), from)
READ(ssize_t, sendfile64, (int to, int from, off64_t *at, size_t size), (to, from, at, size), from)
READ(ssize_t, copy_file_range, (int from, off64_t *at, int to, off64_t *place, size_t size, unsigned flags),
     (from, at, to, place, size, flags), from)
