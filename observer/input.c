/* Reading the standard input that a process was started with: what comes from there is in no file. */

#include "observer.h"

#include <stdio.h>
#include <stdio_ext.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static int is_known;  /* that it is read, or that there is none */
static struct stat at_start;

void observer_note_input(void)
{
    is_known = raw_call(SYS_fstat, 0, (long)&at_start, 0, 0, 0, 0) < 0;
}

/* Also of another descriptor, which may be a copy. */
static void reads(int descriptor)
{
    struct stat status;

    if (is_known || raw_call(SYS_fstat, descriptor, (long)&status, 0, 0, 0, 0) < 0
        || status.st_dev != at_start.st_dev || status.st_ino != at_start.st_ino)
        return;
    is_known = 1;
    ADD_WORD('i', "", (long)status.st_dev, (long)status.st_ino);
}

/* The functions of streams read past these wrappers, but a stream has a buffer once it has been read. */
void observer_streams(void)
{
    if (!is_known && stdin && __fbufsize(stdin) > 0)
        reads(fileno(stdin));
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
