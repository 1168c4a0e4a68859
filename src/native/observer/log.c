/* The log: its format, and how it is written.

   An environment variable names a directory, one for each run of a tool. The tool and all programs that it starts
   append to the file `log` there, in whole batches:

       batch  := '@' pid ' ' bytes '\n' records
       record := kind ( ' ' number )* '\t' text '\0'

   A batch is collected in memory and written by one write(2). The file is opened for each batch, since a program may
   close or reuse any descriptor. A child of vfork shares this memory, so a batch ends when the pid changes.

   The log exists before the run, is removed after it, and is never created here. Therefore, a server that outlives the
   call, and programs that it starts later, write nothing. */

#include "observer.h"

#include <string.h>
#include <sys/resource.h>

#define ROOM (1 << 16)                /* bytes of a batch */
#define LONGEST (PATH_MAX * 2 + 256)  /* bytes of a record, with a directory before its path */
#define HEADER 48                     /* '@', two numbers, blank and newline */
#define SLOTS (1 << 13)
#define LIMIT (64L << 20)             /* bytes of a log: no compile that can be cached writes more */
#define MOST_YIELDS (1 << 22)         /* how often to yield before a lock counts as never released */

static char buffer[HEADER + ROOM];
static unsigned used;           /* bytes of records, which begin at HEADER */
static long pid_of_batch;
static uint64_t seen[SLOTS];    /* digests of recent records, since tools look up a header many times */
static char log_path[PATH_MAX];
static int has_started, is_full;
static long pid_that_ended;
static volatile char lock;
static const char *volatile lost;
static __thread volatile char is_inside;  /* this thread, perhaps interrupted by a signal, holds the lock */
static __thread char holds_for_fork;

int observer_phase, observer_has_moved;
long observer_first_pid;

void observer_set_log(const char *directory)
{
    size_t length = directory ? strlen(directory) : 0;

    if (!length || length + sizeof "/log" > sizeof log_path) {
        is_full = 1;  /* there is no log, so nothing is recorded */
        return;
    }
    memcpy(log_path, directory, length);
    memcpy(log_path + length, "/log", sizeof "/log");
}

/* Take the lock; fails in a signal handler that interrupted a wrapper which holds it. */
static int enter(void)
{
    int yields;

    if (is_inside) {
        lost = "a signal interrupted the observer";
        return 0;
    }
    is_inside = 1;
    for (yields = 0; yields < MOST_YIELDS; yields++) {
        if (!__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
            return 1;
        raw_call(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    }
    is_inside = 0;
    is_full = 1;  /* its holder was cancelled or left by longjmp. A log without an end counts as a crash */
    return 0;
}

static void leave(void)
{
    __atomic_clear(&lock, __ATOMIC_RELEASE);
    is_inside = 0;
}

static char *put_number(char *to, long number)
{
    char digits[24];
    int count = 0;
    unsigned long rest = number < 0 ? -(unsigned long)number : (unsigned long)number;

    if (number < 0)
        *to++ = '-';
    do
        digits[count++] = (char)('0' + rest % 10);
    while (rest /= 10);
    while (count)
        *to++ = digits[--count];
    return to;
}

/* Put the header of a batch right before its records; returns where it begins. */
static char *put_head(char *records, size_t size)
{
    char head[HEADER], *end;

    head[0] = '@';
    end = put_number(head + 1, pid_of_batch);
    *end++ = ' ';
    end = put_number(end, (long)size);
    *end++ = '\n';
    return memcpy(records - (end - head), head, (size_t)(end - head));
}

/* Whether the log may grow by `size` bytes up to `most`, and up to RLIMIT_FSIZE, beyond which a process is killed. */
static int has_room(long descriptor, long size, unsigned long most)
{
    struct stat status;
    struct rlimit limit = {most, most};

    raw_call(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)&limit, 0, 0);
    if (limit.rlim_cur > most)
        limit.rlim_cur = most;
    return raw_call(SYS_fstat, descriptor, (long)&status, 0, 0, 0, 0) >= 0
           && (unsigned long)(status.st_size + size) <= limit.rlim_cur;
}

static void write_batch(void)
{
    static const char no_room[] = "!\tthe log is too long";  /* with the NUL at its end */
    char *start;
    long descriptor, length;

    if (!used || is_full || !log_path[0]) {
        used = 0;
        return;
    }
    descriptor = raw_openat(AT_FDCWD, log_path, O_WRONLY | O_APPEND);
    if (descriptor < 0) {
        used = 0;
        is_full = 1;  /* a log without an end counts as a crash */
        return;
    }
    if (!has_room(descriptor, ROOM, LIMIT)) {
        memcpy(buffer + HEADER, no_room, sizeof no_room);
        used = sizeof no_room;
        is_full = 1;
    }
    start = put_head(buffer + HEADER, used);
    length = (buffer + HEADER - start) + (long)used;
    used = 0;
    if (!has_room(descriptor, length, RLIM_INFINITY)
        || raw_call(SYS_write, descriptor, (long)start, length, 0, 0, 0) != length)
        is_full = 1;  /* the reader notices that the log is truncated or has no end */
    raw_close((int)descriptor);
}

/* Write the directory at which a relative path starts, with a slash; returns its end, or NULL if it is unknown. */
static char *put_directory(char *to, int directory, int has_name)
{
    char link[40] = "/proc/self/fd/";
    long length;

    if (directory == AT_FDCWD || directory == FROM_ROOT) {
        length = raw_call(SYS_getcwd, (long)to, PATH_MAX, 0, 0, 0, 0) - 1;  /* the length includes the NUL */
    } else {
        *put_number(link + sizeof "/proc/self/fd/" - 1, directory) = '\0';
        length = raw_readlink(link, to, PATH_MAX);
    }
    if (length <= 0 || *to != '/')
        return NULL;
    to += length;
    if (has_name && to[-1] != '/')
        *to++ = '/';
    return to;
}

static uint64_t digest(const char *from, const char *end)
{
    uint64_t value = 14695981039346656037ul ^ (uint64_t)pid_of_batch * 1099511628211ul;

    while (from < end)
        value = (value ^ (unsigned char)*from++) * 1099511628211ul;
    return value | 1;
}

void observer_compose(char kind, int directory, const char *text, size_t length, int count, const long *numbers)
{
    long pid = raw_getpid();
    int is_relative = directory != NO_PATH && *text != '/';
    char *start, *end;

    if (used && (pid != pid_of_batch || used + LONGEST + length > ROOM))
        write_batch();
    pid_of_batch = pid;
    start = end = buffer + HEADER + used;
    *end++ = kind;
    while (count-- > 0) {
        *end++ = ' ';
        end = put_number(end, *numbers++);
    }
    *end++ = '\t';
    /* Most paths are relative to the first working directory, and stay relative. */
    if (is_relative && (directory != AT_FDCWD || observer_has_moved || pid != observer_first_pid)) {
        end = put_directory(end, directory, length > 0);
        if (!end) {
            lost = "a directory has no path";
            return;
        }
    }
    memcpy(end, text, length);
    end += length;
    *end++ = '\0';
    if (!strchr("ABCEQVfpxXS!", kind)) {
        uint64_t value = digest(start, end), *slot = &seen[(value >> 8) % SLOTS];
        if (*slot == value)
            return;
        *slot = value;
    }
    used += (unsigned)(end - start);
    if (pid == pid_that_ended)
        write_batch();
}

/* Record that something was lost, once per process. */
static void record_loss(void)
{
    static long recorded_in;
    const char *reason = lost;

    if (reason && recorded_in != raw_getpid()) {
        recorded_in = raw_getpid();
        observer_compose('!', NO_PATH, reason, strlen(reason), 0, NULL);
    }
}

void observer_add(char kind, int directory, const char *text, int count, const long *numbers)
{
    size_t length;

    if (is_full || !text || (!*text && directory == AT_FDCWD))
        return;
    if (!enter())
        return;
    if (!has_started) {
        has_started = 1;
        observer_first_pid = raw_getpid();
        observer_compose_start();
    }
    /* If nothing has this name, the kind of lookup does not matter, except for lookups of links. */
    if (count && strchr("aods", kind) && (numbers[0] == ENOENT || numbers[0] == ENOTDIR)) {
        kind = '-';
        count = 0;
    }
    length = strnlen(text, PATH_MAX + 1);
    if (kind == 'A' && length > PATH_MAX)
        length = PATH_MAX;
    if (length <= PATH_MAX)
        observer_compose(kind, directory, text, length, count, numbers);
    else if (!count || numbers[0] != ENAMETOOLONG)  /* such a path is too long in any directory */
        lost = "a path is too long";
    if (lost)
        record_loss();
    leave();
}

void observer_lose(const char *reason)
{
    lost = reason;
}

void observer_flush(void)
{
    if (enter()) {
        write_batch();
        leave();
    }
}

/* A forked child must keep neither records of its parent, nor a lock whose thread exists only in the parent. */
void observer_before_fork(void)
{
    holds_for_fork = (char)enter();
    if (holds_for_fork)
        write_batch();
}

void observer_after_fork(void)
{
    if (holds_for_fork)
        leave();
    holds_for_fork = 0;
}

void observer_end(int status)
{
    observer_streams();
    ADD_WORD('Q', "", status);
    pid_that_ended = raw_getpid();
    observer_flush();
}
