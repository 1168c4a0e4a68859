/* The cache directory (src/nvccache/store/directory.py), and the call's record in it. */

#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OF_OTHERS (S_IWGRP | S_IWOTH)
/* Opening a file must not block, and a terminal must not become this process's controlling terminal. */
#define FILE_FLAGS (O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
#define LARGE_PAGE (1 << 21) /* bytes */
#define SETTLED 2 /* seconds after a change in which another change is likely, or may not show in the dates */

static int has_tag(const char *cache)
{
    char path[ROOM], tag[sizeof TAG];

    return snprintf(path, sizeof path, "%s/" TAG_NAME, cache) < ROOM && read_file(path, tag, sizeof tag) > 0 &&
           strcmp(tag, TAG) == 0;
}

/* Open a cache directory into which nobody else may write, so that its content is trusted; returns -1 for any other. */
int open_cache(const char *path)
{
    struct stat status;
    int top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (top < 0)
        return -1;
    if (fstat(top, &status) == 0 && status.st_uid == geteuid() && !(status.st_mode & OF_OTHERS) && has_tag(path))
        return top;
    close(top);
    return -1;
}

/* Open a regular file in the cache that only this user can write, or return -1. `flags` may create the file. */
int open_in(int top, const char *path, int flags, struct stat *status)
{
    int file = openat(top, path, flags | FILE_FLAGS, 0600);

    if (file < 0)
        return -1;
    if (fstat(file, status) == 0 && S_ISREG(status->st_mode) && status->st_uid == geteuid() &&
        !(status->st_mode & OF_OTHERS))
        return file;
    close(file);
    return -1;
}

/* The first `size` bytes of a file, or NULL. They are read, not mapped, since this process would be killed if a mapped
   file were truncated or its disk failed. Large records get huge pages, which halves the CPU time. */
void *content_of(int file, uint64_t size)
{
    char *content = aligned_alloc(LARGE_PAGE, (size / LARGE_PAGE + 1) * LARGE_PAGE);
    uint64_t length = 0;

    if (content && size >= LARGE_PAGE)
        madvise(content, size, MADV_HUGEPAGE);
    while (content && length < size) {
        ssize_t got = read(file, content + length, size - length);

        if (got > 0) {
            length += (uint64_t)got;
        } else if (got == 0 || errno != EINTR) {
            free(content);
            content = NULL;
        }
    }
    return content;
}

/* Whether a file was last marked as used so long ago that Python must handle the call, because only Python also marks
   the files to which this file refers. */
int is_stale(const struct stat *status, const struct timespec *now)
{
    return status->st_mtim.tv_sec < now->tv_sec - REFRESHED_AFTER;
}

void *section(const struct record *record, int number, uint32_t *count)
{
    *count = record->head->sections[number].count;
    return record->start + record->head->sections[number].at;
}

const char *string(const struct record *record, uint32_t at)
{
    return record->strings + at;
}

/* Whether the record is complete and belongs to this call. */
static int is_of_call(struct record *record, uint64_t size, const struct call *call)
{
    unsigned char sum[SUM];
    const char *block;
    uint32_t count;

    record->head = (struct replay_head *)record->start;
    if (memcmp(record->head->magic, REPLAY_MAGIC, sizeof record->head->magic) != 0 || record->head->size != size)
        return 0;
    sum_of(record->start + SUMMED_AFTER, size - SUMMED_AFTER, sum);
    if (memcmp(sum, record->head->sum, SUM) != 0)
        return 0;
    record->strings = section(record, IN_STRINGS, &count);
    block = section(record, IN_CALL, &count);
    return count == call->block_size && memcmp(block, call->block, count) == 0;
}

int find_record(int top, const struct call *call, struct record *record)
{
    struct stat status;
    uint64_t size;
    int file, is_found = 0;

    sprintf(record->path, "%s/%.2s/%s", REPLAY_BUCKET, call->name, call->name);
    record->settled = call->began.tv_sec - SETTLED;
    record->is_touched = 0;
    file = open_in(top, record->path, O_RDONLY, &status);
    if (file < 0)
        return 0;
    size = (uint64_t)status.st_size;
    if (size >= sizeof *record->head && size <= LARGEST_RECORD && !is_stale(&status, &call->began)) {
        record->start = content_of(file, size);
        is_found = record->start && is_of_call(record, size, call);
    }
    if (is_found)
        futimens(file, NULL);
    close(file);
    return is_found;
}

/* Write the record with its new signatures. If that fails, a later call computes the files' checksums again. */
void renew_record(int top, const struct call *call, const struct record *record)
{
    char path[sizeof TEMPORARY + NAME_ROOM];
    struct stat status;
    int file;

    sum_of(record->start + SUMMED_AFTER, record->head->size - SUMMED_AFTER, record->head->sum);
    sprintf(path, "%s/%s", TEMPORARY, call->name); /* if equal calls run at the same time, only one of them writes */
    file = open_in(top, path, O_WRONLY | O_CREAT | O_EXCL, &status);
    if (file < 0)
        return;
    if (!write_all(file, record->start, record->head->size) || renameat(top, path, top, record->path) != 0)
        unlinkat(top, path, 0);
    close(file);
}
