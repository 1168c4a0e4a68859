/* Appends the call's line to the event log, with one write and without a lock (src/nvccache/store/event_line.py). */

#include "launcher.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Open the log, or create it if Python has renamed it; -1 if it is so large that Python has to begin another one. */
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

static double seconds_since(const struct timespec *began)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began->tv_sec) + (double)(now.tv_nsec - began->tv_nsec) / 1e9;
}

/* Append the line of a call; errors are ignored. */
void note_event(int log, const struct call *call, const struct record *record)
{
    const struct replay_head *head = record->head;
    char *line;
    size_t length = 0;
    FILE *made = open_memstream(&line, &length);

    if (!made)
        return;
    fprintf(made, "\n%lld.%06ld\t%.6f\t%d\t", (long long)call->began.tv_sec, call->began.tv_nsec / 1000,
            seconds_since(&call->since), (int)getpid());
    fwrite(string(record, head->event), 1, head->event_size, made);
    if (fclose(made) == 0 && write(log, line, length) < 0)
        return;
}
