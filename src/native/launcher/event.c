/* The line of the event log, appended with one write and without a lock (src/nvccache/store/event_line.py). */

#include "launcher.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_ANCESTORS 64

/* Open the log, or create it as after it was renamed; -1 where Python has to begin another one. */
int open_log(int top)
{
    struct stat status;
    int log = open_in(top, JOURNAL "/" LOG, O_WRONLY | O_APPEND | O_CREAT, &status);

    if (log >= 0 && status.st_size >= LARGE_LOG) {
        close(log);
        log = -1;
    }
    return log;
}

/* The parent of a process, its session, and its start in ticks. */
static int look_at(const char *pid, long *parent, long *session, unsigned long long *started)
{
    char path[64], text[4096], *end;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    end = read_file(path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    return end && sscanf(end, ") %*c %ld %*d %ld %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                         parent, session, started) == 3;
}

/* The build that this call belongs to (src/nvccache/machine/builds.py): PID and start of the topmost ancestor below
   the session's leader; empty if there is none. */
static void find_build(char *build, size_t size)
{
    char pid[32] = "self";
    long parent, session, of_session;
    unsigned long long started;

    *build = '\0';
    if (!look_at(pid, &parent, &session, &started))
        return;
    for (int count = 0; count < MOST_ANCESTORS; count++) {
        if (parent == session || parent <= 1)
            return;
        snprintf(pid, sizeof pid, "%ld", parent);
        if (!look_at(pid, &parent, &of_session, &started) || of_session != session)
            break;
        snprintf(build, size, "%s-%llu", pid, started);
    }
    *build = '\0';
}

static double seconds_since(const struct timespec *began)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began->tv_sec) + (double)(now.tv_nsec - began->tv_nsec) / 1e9;
}

/* Record the call; a log that cannot be written is ignored. */
void note_event(int log, const struct call *call, const struct record *record)
{
    const struct replay_head *head = record->head;
    char *line, build[64];
    size_t length = 0;
    FILE *made = open_memstream(&line, &length);

    if (!made)
        return;
    find_build(build, sizeof build);
    fprintf(made, "\n%lld.%06ld\t%.6f\t%d\t%s\t", (long long)call->began.tv_sec, call->began.tv_nsec / 1000,
            seconds_since(&call->since), (int)getpid(), build);
    fwrite(string(record, head->event), 1, head->event_size, made);
    if (fclose(made) == 0 && write(log, line, length) < 0)
        return;
}
