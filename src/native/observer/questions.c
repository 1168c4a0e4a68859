/* Queries of environment variables, the clock, the machine and random numbers. */

#include "observer.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>

#define VARIABLE(name) \
    BEFORE(observer_add('e', NO_PATH, variable, 0, NULL), char *, NULL, name, (const char *variable), (variable))

VARIABLE(getenv)
VARIABLE(secure_getenv)
VARIABLE(__secure_getenv)

static void asked(const char *question)
{
    ADD_WORD('y', question, observer_phase);
}

/* Whether a clock shows the date: all do but those that count from the start of the machine, a process or a thread. */
static int tells_time(clockid_t clock)
{
    return !((clock >= 1 && clock <= 4) || clock == 6 || clock == 7 || clock == 9);
}

#define QUESTION(type, name, parameters, arguments) \
    BEFORE(asked(#name), type, (type)-1, name, parameters, arguments)
#define QUESTION_POINTER(type, name, parameters, arguments) \
    BEFORE(asked(#name), type *, NULL, name, parameters, arguments)

QUESTION(time_t, time, (time_t *now), (now))
QUESTION(int, gettimeofday, (struct timeval *restrict now, void *restrict zone), (now, zone))
BEFORE(if (tells_time(clock)) asked("clock_gettime"), int, -1, clock_gettime, (clockid_t clock, struct timespec *now),
       (clock, now))
QUESTION(int, timespec_get, (struct timespec *now, int base), (now, base))
QUESTION_POINTER(struct tm, localtime, (const time_t *when), (when))
QUESTION_POINTER(struct tm, gmtime, (const time_t *when), (when))
QUESTION_POINTER(struct tm, localtime_r, (const time_t *when, struct tm *broken), (when, broken))
QUESTION_POINTER(struct tm, gmtime_r, (const time_t *when, struct tm *broken), (when, broken))
QUESTION_POINTER(char, ctime, (const time_t *when), (when))
QUESTION_POINTER(char, ctime_r, (const time_t *when, char *room), (when, room))
QUESTION_POINTER(char, asctime, (const struct tm *broken), (broken))
QUESTION_POINTER(char, asctime_r, (const struct tm *broken, char *room), (broken, room))

QUESTION(int, uname, (struct utsname *names), (names))
QUESTION(int, gethostname, (char *room, size_t size), (room, size))
QUESTION(int, __gethostname_chk, (char *room, size_t size, size_t real_size), (room, size, real_size))
QUESTION(long, sysconf, (int name), (name))
QUESTION(int, get_nprocs, (void), ())
QUESTION(int, get_nprocs_conf, (void), ())
QUESTION(int, sched_getaffinity, (pid_t pid, size_t size, cpu_set_t *set), (pid, size, set))

QUESTION(ssize_t, getrandom, (void *room, size_t size, unsigned flags), (room, size, flags))
QUESTION(int, getentropy, (void *room, size_t size), (room, size))
