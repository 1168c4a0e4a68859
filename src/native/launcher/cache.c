/* The cache directory (src/nvccache/store/directory.py), and the record in it. */

#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OF_OTHERS (S_IWGRP | S_IWOTH)
/* Files are opened without blocking, and never as our terminal. */
#define FILE_FLAGS (O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
#define LARGE_PAGE (1 << 21) /* bytes */

static int has_tag(int top)
{
    static const char tag[] = TAG;
    char found[sizeof tag];
    struct stat status;
    int file = openat(top, TAG_NAME, O_RDONLY | FILE_FLAGS), has_it;

    if (file < 0)
        return 0;
    has_it = fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
             read(file, found, sizeof tag - 1) == sizeof tag - 1 && memcmp(found, tag, sizeof tag - 1) == 0;
    close(file);
    return has_it;
}

/* A descriptor of a cache directory into which nobody else may write, or -1. So what it holds is trusted. */
int open_cache(const char *path)
{
    struct stat status;
    int top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (top < 0)
        return -1;
    if (fstat(top, &status) == 0 && status.st_uid == geteuid() && !(status.st_mode & OF_OTHERS) && has_tag(top))
        return top;
    close(top);
    return -1;
}

/* Open a regular file of ours in the cache, or -1; `flags` may create it for this user alone. */
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

/* The first `size` bytes of a file, or NULL. They are read and not mapped: if a mapped file is truncated or its
   disk fails, this process is killed and nothing compiles. Large records get huge pages, which halves CPU time. */
const void *content_of(int file, uint64_t size)
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

/* Whether a file was last marked as used so long ago that what it refers to must be marked too, which Python
   does. */
int is_stale(const struct stat *status, const struct timespec *now)
{
    return status->st_mtim.tv_sec < now->tv_sec - REFRESHED_AFTER;
}

const void *section(const struct record *record, int number, uint32_t *count)
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

    record->head = (const struct replay_head *)record->start;
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
    char path[sizeof REPLAY_BUCKET + NAME_ROOM + 4];
    struct stat status;
    uint64_t size;
    int file, is_found = 0;

    sprintf(path, "%s/%.2s/%s", REPLAY_BUCKET, call->name, call->name);
    file = open_in(top, path, O_RDONLY, &status);
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
