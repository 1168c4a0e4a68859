/* Declarations that the files of the observer share.

   The observer is preloaded into the tools of a compile and records what they read, look up, query and start.
   It wraps functions of the C library and does not change what they do. The wrappers allocate nothing, keep
   errno, and make system calls directly, which are neither wrapped nor points of cancellation.

   log.c        the log: records, batches, and the lock around them
   process.c    start and end of a process, its arguments and what is loaded
   files.c      opening, making and changing files
   lookups.c    queries of names
   input.c      use of the standard input and other inherited descriptors
   programs.c   starting other programs
   questions.c  queries of variables, the clock, the machine
   raw.c        syscall(2) and other ways past the wrappers
   real.c       finding the wrapped functions */

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

/* Instead of a directory's descriptor: the text is no path; or it is a path for another process, recorded from the
   root. */
#define NO_PATH (-1000)
#define FROM_ROOT (-1001)

/* Add a record. A relative path counts from `directory`, as for openat(2), and an empty one is that directory. */
void observer_add(char kind, int directory, const char *text, int count, const long *numbers);
/* The same for the working directory, with the numbers as further arguments. */
#define ADD_AT(kind, directory, text, ...) \
    observer_add(kind, directory, text, sizeof((long[]){__VA_ARGS__}) / sizeof(long), (long[]){__VA_ARGS__})
#define ADD(kind, text, ...) ADD_AT(kind, AT_FDCWD, text, __VA_ARGS__)
#define ADD_WORD(kind, text, ...) ADD_AT(kind, NO_PATH, text, __VA_ARGS__)
/* The same with the errno of the result first; errno is kept. A text that the program could not read (EFAULT) is not
   read here either. */
#define ADD_ANSWER(kind, directory, text, is_bad, ...) \
    do { \
        int kept_ = errno; \
        if (!(is_bad) || kept_ != EFAULT) \
            ADD_AT(kind, directory, text, (is_bad) ? kept_ : 0, __VA_ARGS__); \
        errno = kept_; \
    } while (0)
#define ADD_ANSWER_ONLY(kind, directory, text, is_bad) \
    do { \
        int kept_ = errno; \
        if (!(is_bad) || kept_ != EFAULT) \
            ADD_AT(kind, directory, text, (is_bad) ? kept_ : 0); \
        errno = kept_; \
    } while (0)

void observer_flush(void);                /* write what has been collected */
void observer_lose(const char *reason);   /* something could not be recorded; the text is a literal */
void observer_before_fork(void);
void observer_after_fork(void);
void observer_end(int status);            /* this process ends: record it, and from now on write at once */
void observer_set_log(const char *directory); /* null if there is none */
/* Under the lock of the log, for process.c. */
void observer_compose(char kind, int directory, const char *text, size_t length, int count, const long *numbers);
void observer_compose_start(void);

void observer_objects(void);              /* record what is loaded */
void observer_loads(void);                /* the program is about to load something */
void observer_new_objects(void);          /* record what is loaded if it has loaded something */
void observer_note_inputs(void);          /* at the start of a process */
void observer_reads(const struct stat *status); /* something is read that may be inherited */
void observer_uses(int descriptor);       /* any use, also one that fails */
void observer_streams(void);              /* record what was read by the functions of streams */
void observer_opened(const char *path);   /* for the phase */
extern int observer_phase;                /* 1 once a file with the name of an argument has been opened */
extern int observer_has_moved;            /* the working directory may have changed since the start */
extern long observer_first_pid;           /* of the process that this image started in; a forked child has another */

/* Record a file that was opened; `descriptor` is -1 if it was not. */
void observer_opened_file(int directory, const char *path, int flags, int descriptor);

/* The C library's own function of this name, or null. */
void *observer_find(const char *name);
#define REAL(name, failure) \
    static __typeof__(name) *real; \
    if (!real) \
        real = (__typeof__(name) *)observer_find(#name); \
    if (!real) { \
        errno = ENOSYS; \
        return failure; \
    }

/* Define a function that wraps the one of this name, and does something before or after it. */
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

/* A system call that leaves errno alone: minus the error, or the result. */
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
