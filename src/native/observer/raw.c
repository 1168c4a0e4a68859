/* Calls that would bypass the other wrappers: syscall(2), sockets, changes of what paths mean, and shared memory. */

#include "observer.h"

#include <netdb.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>

/* Whether a system call tells the program nothing about files, the clock or the machine. */
static int is_harmless(long number)
{
    static const short harmless[] = {
        SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_lseek, SYS_close, SYS_fcntl,
        SYS_dup, SYS_dup3, SYS_pipe2, SYS_ftruncate, SYS_fsync, SYS_fdatasync, SYS_fallocate, SYS_ioctl,
        SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_msync, SYS_mincore, SYS_mlock, SYS_munlock, SYS_brk,
        SYS_memfd_create, SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy, SYS_membarrier,
        SYS_gettid, SYS_futex, SYS_set_robust_list, SYS_get_robust_list, SYS_set_tid_address, SYS_exit, SYS_prctl,
        SYS_sched_yield, SYS_sched_setaffinity, SYS_sched_getparam, SYS_sched_setparam, SYS_sched_getscheduler,
        SYS_sched_setscheduler, SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_getpriority, SYS_setpriority,
        SYS_nanosleep, SYS_clock_nanosleep, SYS_kill, SYS_tkill, SYS_tgkill, SYS_wait4, SYS_waitid,
        SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigpending, SYS_rt_sigtimedwait, SYS_sigaltstack, SYS_ppoll,
        SYS_pselect6, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_eventfd2, SYS_timerfd_create,
        SYS_timerfd_settime, SYS_signalfd4, SYS_getpid, SYS_times, SYS_getrusage, SYS_getcpu, SYS_sysinfo, SYS_fstat,
#ifdef SYS_arch_prctl
        SYS_arch_prctl,
#endif
#ifdef SYS_poll
        SYS_poll, SYS_select, SYS_epoll_wait, SYS_dup2, SYS_pipe,
#endif
#ifdef SYS_rseq
        SYS_rseq,
#endif
    };
    size_t at;

    for (at = 0; at < sizeof harmless / sizeof *harmless; at++)
        if (harmless[at] == number)
            return 1;
    return 0;
}

/* The name of the query that a system call makes, or NULL. */
static const char *question_of(long number)
{
    switch (number) {
    case SYS_getrandom: return "getrandom";
    case SYS_clock_gettime: return "clock_gettime";
    case SYS_gettimeofday: return "gettimeofday";
#ifdef SYS_time
    case SYS_time: return "time";
#endif
    case SYS_sched_getaffinity: return "sched_getaffinity";
    case SYS_uname: return "uname";
    default: return NULL;
    }
}

#define PATH(at) ((const char *)a[at])
#define MODE(type, at, field) (error ? 0 : (long)((struct type *)a[at])->field)

/* Record a lookup by an old system call, which 64-bit ARM does not have; returns 0 for other calls. */
static int looks_up_as_before(long number, const long *a, int error, int descriptor)
{
    switch (number) {
#ifdef SYS_open
    case SYS_open: errno = error; observer_opened_file(AT_FDCWD, PATH(0), (int)a[1], descriptor); return 1;
    case SYS_access: ADD('a', PATH(0), error, a[1]); return 1;
    case SYS_readlink: ADD('l', PATH(0), error); return 1;
    case SYS_stat: ADD('s', PATH(0), error, MODE(stat, 1, st_mode)); return 1;
    case SYS_lstat: ADD('h', PATH(0), error, MODE(stat, 1, st_mode)); return 1;
#endif
    default: (void)a; (void)error; (void)descriptor; return 0;
    }
}

/* Record a system call that looks up a path; returns 0 for other calls. */
static int looks_up(long number, const long *a, long result)
{
    int error = result < 0 ? (int)-result : 0, descriptor = (int)result;

    switch (number) {
    case SYS_openat: errno = error; observer_opened_file((int)a[0], PATH(1), (int)a[2], descriptor); return 1;
    case SYS_newfstatat:
        if (PATH(1) && *PATH(1))
            ADD_AT(a[3] & AT_SYMLINK_NOFOLLOW ? 'h' : 's', (int)a[0], PATH(1), error, MODE(stat, 2, st_mode));
        return 1;
#if defined(SYS_statx) && defined(STATX_TYPE)
    case SYS_statx:
        if (PATH(1) && *PATH(1))
            ADD_AT(a[2] & AT_SYMLINK_NOFOLLOW ? 'h' : 's', (int)a[0], PATH(1), error, MODE(statx, 4, stx_mode));
        return 1;
#endif
#ifdef SYS_faccessat2
    case SYS_faccessat2:
#endif
    case SYS_faccessat: ADD_AT('a', (int)a[0], PATH(1), error, a[2]); return 1;
    case SYS_readlinkat: ADD_AT('l', (int)a[0], PATH(1), error); return 1;
    default: return looks_up_as_before(number, a, error, descriptor);
    }
}

long syscall(long number, ...)
{
    long a[6], result;
    const char *question = question_of(number);
    int at, kept = errno;
    va_list list;

    va_start(list, number);
    for (at = 0; at < 6; at++)
        a[at] = va_arg(list, long);
    va_end(list);
    if (number == SYS_exit_group)
        _exit((int)a[0]);
    if (question)
        ADD_WORD('y', question, observer_phase);
    result = raw_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (!question && !is_harmless(number) && (result == -EFAULT || !looks_up(number, a, result)))
        ADD_WORD('k', "", number);
    errno = kept;
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

#define CONNECTS(name, parameters, arguments, is_outside, family) \
    BEFORE(if (is_outside) connects(family), int, -1, name, parameters, arguments)
#define RESOLVES(name, parameters, arguments) \
    BEFORE(connects(AF_UNSPEC), struct hostent *, NULL, name, parameters, arguments)
static void connects(int family)
{
    ADD_WORD('n', "", family);
}

CONNECTS(socket, (int domain, int type, int protocol), (domain, type, protocol), domain != AF_UNIX, domain)
CONNECTS(connect, (int descriptor, const struct sockaddr *address, socklen_t size), (descriptor, address, size), 1,
         address->sa_family)
CONNECTS(getaddrinfo,
         (const char *restrict name, const char *restrict service, const struct addrinfo *restrict hints,
          struct addrinfo **restrict found),
         (name, service, hints, found), 1, AF_UNSPEC)
RESOLVES(gethostbyname, (const char *name), (name))
RESOLVES(gethostbyname2, (const char *name, int family), (name, family))

/* Calls that change what paths mean, open files without paths, or create processes that are not observed. */
#define CHANGES(name, number, parameters, arguments) \
    BEFORE(ADD_WORD('k', "", number), int, -1, name, parameters, arguments)

CHANGES(name_to_handle_at, SYS_name_to_handle_at,
        (int directory, const char *path, struct file_handle *handle, int *mount, int flags),
        (directory, path, handle, mount, flags))
CHANGES(open_by_handle_at, SYS_open_by_handle_at, (int mount, struct file_handle *handle, int flags),
        (mount, handle, flags))
CHANGES(chroot, SYS_chroot, (const char *path), (path))
CHANGES(unshare, SYS_unshare, (int flags), (flags))
CHANGES(setns, SYS_setns, (int descriptor, int type), (descriptor, type))
CHANGES(mount, SYS_mount,
        (const char *source, const char *target, const char *type, unsigned long flags, const void *data),
        (source, target, type, flags, data))

int clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
    REAL(clone, -1)
    void *more[3];
    va_list list;

    va_start(list, argument);
    more[0] = va_arg(list, void *);
    more[1] = va_arg(list, void *);
    more[2] = va_arg(list, void *);
    va_end(list);
    ADD_WORD('k', "", SYS_clone);
    return real(function, stack, flags, argument, more[0], more[1], more[2]);
}

int chdir(const char *path)
{
    REAL(chdir, -1)
    int error = (int)-raw_call(SYS_faccessat, AT_FDCWD, (long)path, X_OK, 0, 0, 0);

    if (error != EFAULT)
        ADD('r', path, error); /* recorded before the call, after which relative paths start elsewhere */
    observer_has_moved = 1;
    return real(path);
}

BEFORE(observer_has_moved = 1, int, -1, fchdir, (int descriptor), (descriptor))

/* Shared memory, which is not a file, and whose content comes from other programs. */
BEFORE(observer_add('g', NO_PATH, path, 0, NULL), int, -1, shm_open, (const char *path, int flags, mode_t mode),
       (path, flags, mode))
