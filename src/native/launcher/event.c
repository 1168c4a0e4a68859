/* The line of the event log, appended with one write and without a lock (src/nvccache/store/event_line.py). */

#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Create the log if there is none, as after a fold. */
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

static int open_log(int top, mode_t mode, struct stat *status)
{
    int log = open_in(top, JOURNAL, LOG, O_RDWR | O_APPEND, status);

    if (log < 0 && errno == ENOENT) {
        make_log(top, mode);
        log = open_in(top, JOURNAL, LOG, O_RDWR | O_APPEND, status);
    }
    if (log >= 0 && status->st_nlink != 1) { /* perhaps somebody's file outside the cache */
        close(log);
        return -1;
    }
    return log;
}

/* Open the log in the directory of statistics; Python folds a large one. */
int open_journal(const struct record *record, struct journal *journal)
{
    struct stat status;

    journal->top = open_cache(string(record, record->head->journal), 0);
    if (journal->top < 0)
        return 0;
    journal->mode = record->head->log_mode & 0666;
    journal->log = open_log(journal->top, journal->mode, &status);
    return journal->log >= 0 && status.st_size < LARGE_LOG;
}

/* The most jobs that the last calls of a build recorded; 0 if the log has none. */
static uint64_t most_jobs(const struct journal *journal, const char *build)
{
    static char tail[LOG_TAIL + 1];
    off_t size = lseek(journal->log, 0, SEEK_END);
    ssize_t length = pread(journal->log, tail, LOG_TAIL, size > LOG_TAIL ? size - LOG_TAIL : 0);
    uint64_t most = 0;
    char *next;

    if (length <= 0)
        return 0;
    tail[length] = '\0';
    for (char *line = tail; line; line = next) {
        char *field = line;
        size_t end;

        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        end = strlen(line);
        if (end < 2 || strcmp(line + end - 2, "\t.") != 0)
            continue;
        for (int index = 0; field && index < LOG_BUILD_FIELD; index++)
            field = strchr(field, '\t') ? strchr(field, '\t') + 1 : NULL;
        if (field && strncmp(field, build, strlen(build)) == 0 && field[strlen(build)] == '\t') {
            uint64_t jobs = strtoull(field + strlen(build) + 1, NULL, 10);

            if (jobs > most && jobs < 1000000000)
                most = jobs;
        }
    }
    return most;
}

/* Whether a fold closed the log before the line was written. */
static int is_too_late(const struct journal *journal, size_t length)
{
    struct stat ours, named;
    int folder, is_gone = 1;
    off_t start;
    char *before;

    if (fstat(journal->log, &ours) != 0)
        return 0;
    folder = openat(journal->top, JOURNAL, FOLDER_FLAGS);
    if (folder >= 0) {
        is_gone = fstatat(folder, LOG, &named, AT_SYMLINK_NOFOLLOW) != 0 || named.st_ino != ours.st_ino ||
                  named.st_dev != ours.st_dev;
        close(folder);
    }
    start = is_gone ? lseek(journal->log, 0, SEEK_CUR) - (off_t)length : 0; /* a fold renames before it closes */
    before = start > 0 ? malloc((size_t)start) : NULL;
    is_gone = before && pread(journal->log, before, (size_t)start, 0) == start &&
              memmem(before, (size_t)start, LOG_CLOSED, sizeof LOG_CLOSED - 1);
    free(before);
    return is_gone;
}

static double seconds_since(const struct timespec *began)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began->tv_sec) + (double)(now.tv_nsec - began->tv_nsec) / 1e9;
}

/* Complete the line that Python prepared: each letter of GAPS stands for a value that is known only now. */
static size_t make_line(const struct journal *journal, const struct call *call, const struct record *record, char **line)
{
    const struct replay_head *head = record->head;
    const char *next = string(record, head->event), *end = next + head->event_size, *build = build_name();
    uint64_t jobs = jobs_of_build(*build ? most_jobs(journal, build) : 0);
    double seconds = seconds_since(&call->since);
    size_t length = 0;
    FILE *made = open_memstream(line, &length);

    if (!made)
        return 0;
    for (; next < end; next++) {
        if (*next != GAP || next + 1 == end) {
            fputc(*next, made);
            continue;
        }
        switch (*++next) {
        case GAP_STARTED:
            fprintf(made, "%lld.%06ld", (long long)call->began.tv_sec, call->began.tv_nsec / 1000);
            break;
        case GAP_SECONDS:
            fprintf(made, "%.6f", seconds);
            break;
        case GAP_PID:
            fprintf(made, "%d", (int)getpid());
            break;
        case GAP_WALL_SAVED:
            fprintf(made, "%.6f", ((double)head->wall_saved / 1e6 - seconds) / (double)jobs);
            break;
        case GAP_BUILD:
            fputs(build, made);
            break;
        case GAP_JOBS:
            fprintf(made, "%llu", (unsigned long long)jobs);
            break;
        }
    }
    return fclose(made) == 0 ? length : 0;
}

/* Record the call; a log that cannot be written is ignored. */
void note_event(struct journal *journal, const struct call *call, const struct record *record)
{
    struct stat status;
    char *line = NULL;
    size_t length = make_line(journal, call, record, &line);

    for (int try = 0; length > 0 && try < APPEND_TRIES; try++) {
        if (write(journal->log, line, length) != (ssize_t)length || !is_too_late(journal, length))
            break;
        close(journal->log);
        journal->log = open_log(journal->top, journal->mode, &status);
        if (journal->log < 0)
            break;
    }
}
