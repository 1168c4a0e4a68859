/* Queries of variables, the clock, the machine and the source of randomness. */

#include "observer.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timeb.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <termios.h>
#include <time.h>

#define VARIABLE(name) \
    AFTER(ADD_ANSWER_ONLY('e', NO_PATH, variable, 0), char *, NULL, name, (const char *variable), (variable))

VARIABLE(getenv)
VARIABLE(secure_getenv)
VARIABLE(__secure_getenv)

static void asked(const char *question, long number)
{
    int kept = errno;

    ADD_WORD('y', question, number, observer_phase);
    errno = kept;
}

#define QUESTION(type, name, parameters, arguments, number) \
    BEFORE(asked(#name, number), type, (type)-1, name, parameters, arguments)
#define QUESTION_POINTER(type, name, parameters, arguments) \
    BEFORE(asked(#name, 0), type *, NULL, name, parameters, arguments)

QUESTION(time_t, time, (time_t *now), (now), 0)
QUESTION(clock_t, clock, (void), (), 0)
QUESTION(clock_t, times, (struct tms *now), (now), 0)
QUESTION(int, gettimeofday, (struct timeval *restrict now, void *restrict zone), (now, zone), 0)
QUESTION(int, clock_gettime, (clockid_t clock, struct timespec *now), (clock, now), clock)
QUESTION(int, timespec_get, (struct timespec *now, int base), (now, base), base)
QUESTION_POINTER(struct tm, localtime, (const time_t *when), (when))
QUESTION_POINTER(struct tm, gmtime, (const time_t *when), (when))
QUESTION_POINTER(struct tm, localtime_r, (const time_t *when, struct tm *broken), (when, broken))
QUESTION_POINTER(struct tm, gmtime_r, (const time_t *when, struct tm *broken), (when, broken))
QUESTION_POINTER(char, ctime, (const time_t *when), (when))
QUESTION_POINTER(char, ctime_r, (const time_t *when, char *room), (when, room))
QUESTION_POINTER(char, asctime, (const struct tm *broken), (broken))
QUESTION_POINTER(char, asctime_r, (const struct tm *broken, char *room), (broken, room))
QUESTION(time_t, mktime, (struct tm *broken), (broken), 0)

QUESTION(int, uname, (struct utsname *names), (names), 0)
QUESTION(int, gethostname, (char *room, size_t size), (room, size), 0)
QUESTION(int, __gethostname_chk, (char *room, size_t size, size_t real_size), (room, size, real_size), 0)
QUESTION(long, gethostid, (void), (), 0)
QUESTION(long, sysconf, (int name), (name), name)
QUESTION(int, get_nprocs, (void), (), 0)
QUESTION(int, get_nprocs_conf, (void), (), 0)
QUESTION(int, sched_getaffinity, (pid_t pid, size_t size, cpu_set_t *set), (pid, size, set), 0)
QUESTION(int, sched_getcpu, (void), (), 0)
QUESTION(int, sysinfo, (struct sysinfo *status), (status), 0)
QUESTION(int, getloadavg, (double *averages, int count), (averages, count), 0)
QUESTION(int, getrusage, (__rusage_who_t who, struct rusage *usage), (who, usage), who)
QUESTION(pid_t, getpid, (void), (), 0)

QUESTION(ssize_t, getrandom, (void *room, size_t size, unsigned flags), (room, size, flags), 0)
QUESTION(int, getentropy, (void *room, size_t size), (room, size), 0)

#define TERMINAL(type, failure, name, parameters, arguments) \
    BEFORE(observer_uses(descriptor), type, failure, name, parameters, arguments)

TERMINAL(int, 0, isatty, (int descriptor), (descriptor))
TERMINAL(int, -1, tcgetattr, (int descriptor, struct termios *state), (descriptor, state))
TERMINAL(char *, NULL, ttyname, (int descriptor), (descriptor))
TERMINAL(int, ENOTTY, ttyname_r, (int descriptor, char *room, size_t size), (descriptor, room, size))
