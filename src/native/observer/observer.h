/* Declarations that the files of the observer share.

   The observer is preloaded into the tools of a compile and records what they read, look up, query and start. It wraps
   functions of the C library and does not change what they do. The wrappers allocate nothing and set no errno. Their own
   system calls do not go through the C library, so that they are neither wrapped nor cancellation points.

   log.c        the log: its records, batches and lock
   process.c    start and end of a process, its arguments and loaded objects
   files.c      opening, creating and changing files
   lookups.c    lookups of paths
   input.c      use of the standard input and other inherited descriptors
   programs.c   starting other programs
   questions.c  queries of variables, the clock and the machine
   memory.c     huge pages for memory that a tool maps
   raw.c        syscall(2) and other calls that would bypass the wrappers
   real.c       finding the functions of the C library that are wrapped */

#ifndef OBSERVER_H
#define OBSERVER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOG_VERSION 11

#pragma GCC visibility push(hidden)

/* Used instead of a directory's descriptor. NO_PATH: the text is not a path. FROM_ROOT: the text is a path for another
   process, so it is recorded as an absolute path. */
#define NO_PATH (-1000)
#define FROM_ROOT (-1001)

/* Add a record. A relative path starts at `directory`, as for openat(2); an empty path is that directory. */
void observer_add(char kind, int directory, const char *text, int count, const long *numbers);
/* Add a record, with its numbers as further arguments. ADD is for paths in the working directory, ADD_WORD for
   texts. */
#define ADD_AT(kind, directory, text, ...) \
    observer_add(kind, directory, text, sizeof((long[]){__VA_ARGS__}) / sizeof(long), (long[]){__VA_ARGS__})
#define ADD(kind, text, ...) ADD_AT(kind, AT_FDCWD, text, __VA_ARGS__)
#define ADD_WORD(kind, text, ...) ADD_AT(kind, NO_PATH, text, __VA_ARGS__)
/* Record the result of a call, with errno, or 0, as the first number. After EFAULT nothing is recorded,
   because the text cannot be read. */
#define ADD_ANSWER(kind, directory, text, is_bad, ...) \
    do { \
        if (!(is_bad) || errno != EFAULT) \
            ADD_AT(kind, directory, text, (is_bad) ? errno : 0, __VA_ARGS__); \
    } while (0)
#define ADD_ANSWER_ONLY(kind, directory, text, is_bad) \
    do { \
        if (!(is_bad) || errno != EFAULT) \
            ADD_AT(kind, directory, text, (is_bad) ? errno : 0); \
    } while (0)

void observer_flush(void);                /* write the collected records */
void observer_lose(const char *reason);   /* remember that something could not be recorded; `reason` is a literal */
void observer_before_fork(void);
void observer_after_fork(void);
void observer_end(int status);            /* record the end of this process, and write later records at once */
void observer_set_log(const char *directory); /* NULL if there is no log */
/* For process.c; these two need the lock of the log. */
void observer_compose(char kind, int directory, const char *text, size_t length, int count, const long *numbers);
void observer_compose_start(void);

void observer_objects(void);              /* record the loaded objects */
void observer_loads(void);                /* remember that the program may load an object */
void observer_new_objects(void);          /* record the loaded objects if there may be new ones */
void observer_note_inputs(void);          /* remember the descriptors that a process inherits */
void observer_reads(const struct stat *status); /* record a read of an open file if it was inherited */
void observer_uses(int descriptor);       /* record any use of an inherited descriptor, even one that fails */
void observer_streams(void);              /* record reads of the standard input by stdio functions */
void observer_opened(const char *path);   /* set observer_phase if an argument names this file */
extern int observer_phase;                /* 1 once a file with the name of an argument has been opened */
extern int observer_has_moved;            /* the working directory may have changed since the start */
extern long observer_first_pid;           /* the pid when this program started; a forked child has another */

/* Record that a file was opened; `descriptor` is -1 if that failed, with the reason in errno. */
void observer_opened_file(int directory, const char *path, int flags, int descriptor);

/* The C library's own function of this name, or NULL. */
void *observer_find(const char *name);
#define REAL(name, failure) \
    static __typeof__(name) *real; \
    if (!real) \
        real = (__typeof__(name) *)observer_find(#name); \
    if (!real) { \
        errno = ENOSYS; \
        return failure; \
    }

/* Define a wrapper of the function `name`, which does `done` before or after calling it. */
#define BEFORE(done, type, failure, name, parameters, arguments) \
    type name parameters; \
    type name parameters \
    { \
        REAL(name, failure) \
        done; \
        return real arguments; \
    }
#define AFTER(done, type, failure, name, parameters, arguments) \
    type name parameters; \
    type name parameters \
    { \
        REAL(name, failure) \
        type result = real arguments; \
        done; \
        return result; \
    }

#pragma GCC visibility pop

/* Make a system call without changing errno; returns the result, or minus the error. */
static inline long raw_call(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;

    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#else
#error "nvcc runs on x86-64 and 64-bit ARM only"
#endif
}

static inline long raw_openat(int directory, const char *path, int flags)
{
    return raw_call(SYS_openat, directory, (long)path, flags | O_CLOEXEC, 0600, 0, 0);
}

static inline long raw_close(int descriptor)
{
    return raw_call(SYS_close, descriptor, 0, 0, 0, 0, 0);
}

static inline long raw_readlink(const char *path, char *room, size_t size)
{
    return raw_call(SYS_readlinkat, AT_FDCWD, (long)path, (long)room, (long)size, 0, 0);
}

static inline long raw_stat(const char *path, struct stat *status)
{
    return raw_call(SYS_newfstatat, AT_FDCWD, (long)path, (long)status, 0, 0, 0);
}

static inline long raw_getpid(void)
{
    return raw_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

#endif
