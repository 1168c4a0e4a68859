/* The line of the event log, appended with one write and without a lock (src/nvccache/store/event_line.py). */

#include "launcher.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Create the log if there is none, as after it was renamed. */
static void make_log(int top, mode_t mode)
{
    int folder = openat(top, JOURNAL, FOLDER_FLAGS), log;

    if (folder < 0)
        return;
    log = openat(folder, LOG, O_WRONLY | O_CREAT | O_EXCL | FILE_FLAGS, 0600);
    if (log >= 0) {
        fchmod(log, mode);
        close(log);
    }
    close(folder);
}

/* Open the log in the directory of statistics; -1 also where Python has to begin another one. */
int open_log(const struct record *record)
{
    int top = open_cache(string(record, record->head->journal), 0), log;
    struct stat status;

    if (top < 0)
        return -1;
    log = open_in(top, JOURNAL, LOG, O_WRONLY | O_APPEND, &status);
    if (log < 0) {
        make_log(top, record->head->log_mode & 0666);
        log = open_in(top, JOURNAL, LOG, O_WRONLY | O_APPEND, &status);
    }
    close(top);
    if (log >= 0 && status.st_size >= LARGE_LOG) {
        close(log);
        log = -1;
    }
    return log;
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
