/* Whether the machine and the properties of this process are unchanged: src/nvccache/records/facts.py describes
   them in the same form. */

#include "launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#define STATUS "/proc/self/status"
#define LIMITS "/proc/self/limits"

static const unsigned char nothing[SUM];

/* The name of this machine, its kernel and the number of its processors. */
static size_t describe_host(char *room, size_t size)
{
    struct utsname host;

    if (uname(&host) != 0)
        return 0;
    return (size_t)snprintf(room, size, "%s %s %s %s %s %ld", host.sysname, host.nodename, host.release, host.version,
                            host.machine, sysconf(_SC_NPROCESSORS_ONLN));
}

/* Users, limits, processors, priority and standard input; parts end with NUL, but for the last. */
static size_t describe_caller(char *room, size_t size)
{
    static const char *const counted[] = STATUS_OF_CALLER;
    static char status[16384], limits[8192];
    struct stat typed;
    size_t length = 0;

    if (read_file(STATUS, status, sizeof status) <= 0 || read_file(LIMITS, limits, sizeof limits) <= 0)
        return 0;
    for (char *line = strtok(status, "\n"); line; line = strtok(NULL, "\n")) {
        char *colon = strchr(line, ':');
        int counts;

        if (!colon)
            continue;
        *colon = '\0';
        counts = is_one_of(line, counted);
        *colon = ':';
        if (counts)
            length += (size_t)snprintf(room + length, size - length, "%s", line) + 1;
        if (length >= size)
            return 0;
    }
    length += (size_t)snprintf(room + length, size - length, "%s", limits) + 1;
    if (length < size)
        length += (size_t)snprintf(room + length, size - length, "%d", getpriority(PRIO_PROCESS, 0)) + 1;
    if (length < size && fstat(0, &typed) == 0)
        length += (size_t)snprintf(room + length, size - length, "%u %llu", typed.st_mode & S_IFMT,
                                   (unsigned long long)typed.st_rdev);
    return length < size ? length : 0;
}

/* Whether the description is the recorded one; there is none if no tool queried it. */
static int is_as(const unsigned char *recorded, size_t (*describe)(char *, size_t))
{
    static char room[32768];
    unsigned char sum[SUM];
    size_t length;

    if (memcmp(recorded, nothing, SUM) == 0)
        return 1;
    length = describe(room, sizeof room);
    if (length == 0 || length >= sizeof room)
        return 0;
    sum_of(room, length, sum);
    return memcmp(recorded, sum, SUM) == 0;
}

int is_same_process(const struct record *record)
{
    return is_as(record->head->host, describe_host) && is_as(record->head->caller, describe_caller);
}

/* Whether the machine has not rebooted, if the record depends on the machine. */
int is_same_machine(const struct record *record)
{
    const char *recorded = string(record, record->head->boot);
    char boot[128];

    if (!*recorded)
        return 1;
    if (read_file(BOOT, boot, sizeof boot) <= 0)
        return 0;
    boot[strcspn(boot, "\n")] = '\0';
    return strcmp(boot, recorded) == 0;
}

/* nvcc fails without the directory for its temporary files. */
int has_room_for_temporary_files(void)
{
    const char *directory = getenv("TMPDIR");
    char path[PATH_MAX];

    if (!directory)
        directory = "/tmp";
    return *directory && snprintf(path, sizeof path, "%s/.", directory) < (int)sizeof path &&
           access(path, W_OK | X_OK) == 0;
}
