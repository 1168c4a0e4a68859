/* Reading what a process was handed down: its standard input, and descriptors that were open when it was started.
   What comes from there is in no file. */

#include "observer.h"

#include <stdio.h>
#include <stdio_ext.h>
#include <sys/sendfile.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#define FIRST 3  /* beside the standard input: the standard outputs are the caller's own business */
#define LAST 19
#define NOTHING makedev(1, 3)  /* /dev/null */

static struct {
    dev_t device;
    ino_t inode;
    char is_told;
} given[LAST - FIRST + 2];
static unsigned count_of_given;
static volatile int untold;

static void note(int descriptor)
{
    struct stat status;

    if (raw_call(SYS_fstat, descriptor, (long)&status, 0, 0, 0, 0) < 0 || S_ISDIR(status.st_mode)
        || (descriptor && S_ISCHR(status.st_mode) && status.st_rdev == NOTHING))
        return;
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
            && !__atomic_test_and_set(&given[at].is_told, __ATOMIC_RELAXED)) {
            __atomic_sub_fetch(&untold, 1, __ATOMIC_RELAXED);
            ADD_WORD('i', "", (long)status->st_dev, (long)status->st_ino);
        }
}

/* Of any descriptor, which may be a copy. */
static void reads(int descriptor)
{
    struct stat status;

    if (untold && raw_call(SYS_fstat, descriptor, (long)&status, 0, 0, 0, 0) >= 0)
        observer_reads(&status);
}

/* The functions of streams read past these wrappers, but a stream has a buffer once it has been read. */
void observer_streams(void)
{
    if (untold && stdin && __fbufsize(stdin) > 0)
        reads(fileno(stdin));
}

/* Of another stream that is not seen, so making one counts. */
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
