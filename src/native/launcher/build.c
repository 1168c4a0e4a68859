/* Which build a call belongs to, and how many jobs run in parallel (src/nvccache/machine/callers.py). */

#include "launcher.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGEST (1 << 16)     /* bytes of a file of /proc */
#define MOST_PROCESSORS 16384
#define FIELDS 20             /* fields of a process's status, from its name to its start time */

struct process {
    char name[64];
    long parent, session;
    char began[32];
};

static char room[LARGEST];
static char build[64];
static long pids[MOST_ANCESTORS];
static int pids_count;
static uint64_t jobs_at_first;

/* Read a file and end it with NUL; the bytes read, or -1 if it cannot be read or does not fit. */
int read_file(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = 1;

    if (file < 0)
        return -1;
    while (length < size && (got = read(file, text + length, size - length)) > 0)
        length += (size_t)got;
    close(file);
    if (got < 0 || length == size) {
        errno = EFBIG;
        return -1;
    }
    text[length] = '\0';
    return (int)length;
}

/* The kernel's status of a process, of this one for 0. */
static int look_at(long pid, struct process *process)
{
    char path[64], *fields[FIELDS], *name, *end;
    int count = 0;

    sprintf(path, pid ? "/proc/%ld/stat" : "/proc/self/stat", pid);
    if (read_file(path, room, sizeof room) <= 0)
        return 0;
    name = strchr(room, '(');
    end = strrchr(room, ')');
    if (!name || !end || end < name)
        return 0;
    *end = '\0';
    snprintf(process->name, sizeof process->name, "%s", name + 1);
    for (char *field = strtok(end + 1, " \n"); field && count < FIELDS; field = strtok(NULL, " \n"))
        fields[count++] = field;
    if (count < FIELDS)
        return 0;
    process->parent = atol(fields[1]);
    process->session = atol(fields[3]);
    snprintf(process->began, sizeof process->began, "%s", fields[FIELDS - 1]);
    return 1;
}

/* The children of a process, of all its threads; -1 where they cannot be counted. */
static long children_of(long pid)
{
    char path[256];
    struct dirent *entry;
    DIR *threads;
    long children = 0, count = 0;

    sprintf(path, "/proc/%ld/task", pid);
    threads = opendir(path);
    while (threads && children >= 0 && (entry = readdir(threads))) {
        if (*entry->d_name == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%ld/task/%.32s/children", pid, entry->d_name);
        if (++count > MOST_THREADS || read_file(path, room, sizeof room) < 0) {
            children = -1;
            break;
        }
        for (char *word = strtok(room, " \n"); word; word = strtok(NULL, " \n"))
            children++;
    }
    if (!threads)
        return -1;
    closedir(threads);
    return children;
}

/* The number of jobs; 0 if they cannot be counted. */
static uint64_t count_jobs(void)
{
    uint64_t product = pids_count > 0;

    for (int index = 0; index < pids_count; index++) {
        long children = children_of(pids[index]);

        if (children < 0)
            return 0;
        product *= children > 1 ? (uint64_t)children : 1;
    }
    return product;
}

/* The ancestors up to the outermost build tool of the session, or to the session's first process. */
static int find_way(void)
{
    static const char *const tools[] = BUILD_TOOLS;
    struct process process;
    long passed[MOST_ANCESTORS], next, session;
    int count = 0;

    if (!look_at(0, &process))
        return 0;
    session = process.session;
    for (next = process.parent; count < MOST_ANCESTORS && next > 0; next = process.parent) {
        if (!look_at(next, &process))
            return 0;
        if (process.session != session)
            break;
        passed[count++] = next;
        if (is_one_of(process.name, tools)) {
            snprintf(build, sizeof build, "%ld-%s", next, process.began);
            pids_count = count;
        }
        if (next == session) {
            pids_count = pids_count ? pids_count : count;
            break;
        }
    }
    memcpy(pids, passed, (size_t)pids_count * sizeof *pids);
    return 1;
}

void find_build(void)
{
    if (!find_way())
        pids_count = 0;
    jobs_at_first = count_jobs();
}

const char *build_name(void)
{
    return build;
}

/* A number of decimal digits only; -1 for any other text. */
static long long number_in(const char *word)
{
    return word && *word && strspn(word, "0123456789") == strlen(word) && strlen(word) < 16 ? atoll(word) : -1;
}

/* The quota of one group, in cores and rounded up; -1 where it has none. */
static long long quota_of(const char *directory)
{
    char path[2 * PATH_MAX + 32], text[256];
    long long quota, period;

    snprintf(path, sizeof path, "%s/cpu.max", directory);
    if (read_file(path, text, sizeof text - 1) <= 0) {
        int length;

        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", directory);
        length = read_file(path, text, sizeof text / 2);
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", directory);
        if (length < 0 || read_file(path, text + length, sizeof text / 2) < 0)
            return -1;
    }
    quota = number_in(strtok(text, " \n"));
    period = number_in(strtok(NULL, " \n"));
    return quota < 0 || period <= 0 || strtok(NULL, " \n") ? -1 : (quota + period - 1) / period;
}

/* The least of `cores` and the quotas of a group and of those above it. */
static long long limited_by(const char *mount, const char *path, long long cores)
{
    char below[PATH_MAX], directory[PATH_MAX + 256];
    long long quota;

    if (!make_absolute(path + strspn(path, "/"), "", below))
        return cores;
    for (;;) {
        int is_top = strcmp(below, "/") == 0;

        snprintf(directory, sizeof directory, "%s%s", mount, is_top ? "" : below);
        quota = quota_of(directory);
        if (quota >= 0 && quota < cores)
            cores = quota > 1 ? quota : 1;
        if (is_top)
            return cores;
        *(name_of(below) == below + 1 ? strrchr(below, '/') + 1 : strrchr(below, '/')) = '\0';
    }
}

static int names_cpu(const char *controllers)
{
    size_t length;

    for (;; controllers += length + 1) {
        length = strcspn(controllers, ",");
        if (length == 3 && memcmp(controllers, "cpu", 3) == 0)
            return 1;
        if (!controllers[length])
            return 0;
    }
}

/* The cores that this process may use (src/nvccache/machine/cgroups.py). */
static long long cores_of_process(void)
{
    static unsigned char mask[MOST_PROCESSORS / 8];
    static char groups[LARGEST];
    char mount[256], *next;
    long long cores = 0;

    if (sched_getaffinity(0, sizeof mask, (cpu_set_t *)mask) != 0)
        return 1;
    for (size_t bit = 0; bit < MOST_PROCESSORS; bit++)
        cores += mask[bit / 8] >> bit % 8 & 1;
    if (read_file(OWN_CGROUP, groups, sizeof groups) < 0)
        return cores;
    for (char *line = groups; line; line = next) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;

        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (!path || (next && path > next))
            continue;
        *path++ = '\0';
        if (!*++controllers) {
            cores = limited_by(CGROUPS, path, cores);
            cores = limited_by(CGROUPS "/unified", path, cores);
        } else if (names_cpu(controllers)) {
            cores = limited_by(CGROUPS "/cpu", path, cores);
            snprintf(mount, sizeof mount, "%s/%.128s", CGROUPS, controllers);
            cores = limited_by(mount, path, cores);
        }
    }
    return cores;
}

/* How many jobs of the build ran at once, at most one for each core; `before` is what earlier calls recorded. */
uint64_t jobs_of_build(uint64_t before)
{
    uint64_t now = count_jobs(), most = jobs_at_first > now ? jobs_at_first : now, cores;
    int is_counted = jobs_at_first && now;

    if (before > most)
        most = before;
    if (most == 1 && is_counted)
        return 1;
    cores = (uint64_t)cores_of_process();
    return is_counted && most < cores ? most : cores;
}
