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

/* A descriptor of a cache directory, or -1; if it `is_private`, nobody else may write into it. */
int open_cache(const char *path, int is_private)
{
    struct stat status;
    int top = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (top < 0)
        return -1;
    if (fstat(top, &status) == 0 && (!is_private || (status.st_uid == geteuid() && !(status.st_mode & OF_OTHERS))) &&
        has_tag(top))
        return top;
    close(top);
    return -1;
}

/* Open a regular file in `BUCKET/SHARD` or `FOLDER`, one directory after the other; -1 if that fails, and errno
   is ENOENT only if the folder has no such file. */
int open_in(int top, const char *folder, const char *name, int flags, struct stat *status)
{
    char first[64];
    const char *slash = strchr(folder, '/');
    int length = (int)(slash ? slash - folder : (long)strlen(folder)), outer, inner, file = -1, error = EINVAL;

    if (snprintf(first, sizeof first, "%.*s", length, folder) >= (int)sizeof first)
        return -1;
    outer = openat(top, first, FOLDER_FLAGS);
    if (outer < 0) {
        errno = EINVAL;
        return -1;
    }
    inner = slash ? openat(outer, slash + 1, FOLDER_FLAGS) : outer;
    if (inner >= 0)
        file = openat(inner, name, flags | FILE_FLAGS), error = errno;
    if (slash && inner >= 0)
        close(inner);
    close(outer);
    if (file >= 0 && !(fstat(file, status) == 0 && S_ISREG(status->st_mode))) {
        close(file);
        file = -1, error = EINVAL;
    }
    errno = error;
    return file;
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
    uint32_t count;

    record->head = (const struct replay_head *)record->start;
    if (memcmp(record->head->magic, REPLAY_MAGIC, sizeof record->head->magic) != 0 || record->head->size != size)
        return 0;
    sum_of(record->start + SUMMED_AFTER, size - SUMMED_AFTER, sum);
    if (memcmp(sum, record->head->sum, SUM) != 0)
        return 0;
    record->strings = section(record, IN_STRINGS, &count);
    return memcmp(record->head->call, call->digest, DIGEST) == 0 && record->head->first == (uint32_t)call->first;
}

int find_record(int top, const struct call *call, struct record *record)
{
    char folder[sizeof REPLAY_BUCKET + 3];
    struct stat status;
    uint64_t size;
    int file, is_found = 0;

    sprintf(folder, "%s/%.2s", REPLAY_BUCKET, call->name);
    file = open_in(top, folder, call->name, O_RDONLY, &status);
    if (file < 0)
        return 0;
    size = (uint64_t)status.st_size;
    if (status.st_uid == geteuid() && status.st_nlink == 1 && !(status.st_mode & 077) &&
        size >= sizeof *record->head && size <= LARGEST_RECORD && !is_stale(&status, &call->began)) {
        record->start = content_of(file, size);
        is_found = record->start && is_of_call(record, size, call);
    }
    if (is_found)
        futimens(file, NULL);
    close(file);
    return is_found;
}
