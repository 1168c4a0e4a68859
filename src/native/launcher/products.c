/* Writing products, as src/nvccache/records/products.py does: each appears complete under its name.

       nothing there       written without a name (O_TMPFILE), then linked to its name
       replaced            the same; the old file is unlinked just before
       overwritten         in place, after its blocks have been reserved

   None is visible before all are written or have their room. Python handles anything but regular files, and file
   systems without O_TMPFILE. */

#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CLONE 0x40049409 /* FICLONE of <linux/fs.h> */

struct pending {
    const char *path;
    const char *content;
    uint64_t size;
    int unlink_first;
    int blob; /* a descriptor, or -1 */
    int file;
    int is_in_place;
    int is_torn;
    struct stat before; /* of a file that will be overwritten */
};

/* The content of a blob, if its checksum is right; marks it as used. */
static int take_blob(int top, const char *name, const struct replay_product *product, const struct timespec *now,
                     struct pending *one)
{
    char path[ROOM];
    unsigned char sum[SUM];
    struct stat status;
    uint64_t size;

    snprintf(path, sizeof path, "%s/%.2s/%s", BLOB_BUCKET, name, name);
    one->blob = open_in(top, path, O_RDONLY, &status);
    if (one->blob < 0)
        return 0;
    size = (uint64_t)status.st_size;
    if (is_stale(&status, now) ||
        size != (size < BLOB_SUMMED_FROM ? product->size : product->size + BLOB_TAIL))
        return 0;
    one->content = content_of(one->blob, product->size);
    if (!one->content)
        return 0;
    sum_of(one->content, product->size, sum);
    if (memcmp(sum, product->sum, SUM) != 0)
        return 0;
    if (status.st_nlink == 1)
        futimens(one->blob, NULL);
    return 1;
}

/* Whether the file has other names: then it matters whether a tool overwrites or replaces it. */
static int has_other_names(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0 && (S_ISLNK(status.st_mode) || status.st_nlink > 1);
}

static int take(int top, const struct call *call, const struct record *record, const struct replay_product *product,
                struct pending *one)
{
    one->path = string(record, product->path);
    one->size = product->size;
    one->unlink_first = product->unlink_first != 0;
    if (product->blob)
        return !has_other_names(one->path) && take_blob(top, string(record, product->blob), product, &call->began, one);
    one->content = string(record, product->content);
    return 1;
}

/* Put the content into an empty file, as a clone of the blob if the file system can. */
static int fill(struct pending *one)
{
    if (one->blob >= 0 && one->size >= WORTH_CLONING && ioctl(one->file, CLONE, one->blob) == 0)
        return ftruncate(one->file, (off_t)one->size) == 0;
    return write_all(one->file, one->content, one->size);
}

static int write_new(struct pending *one)
{
    char directory[PATH_MAX];
    size_t length = (size_t)(name_of(one->path) - one->path);

    if (length >= sizeof directory)
        return 0;
    memcpy(directory, one->path, length);
    directory[length] = '\0';
    one->file = open(length ? directory : ".", O_RDWR | O_CLOEXEC | O_TMPFILE, 0666);
    return one->file >= 0 && fill(one);
}

/* Whether the file is standard output or error, where messages come between the outputs of nvcc's tools. */
static int is_stream(const struct stat *file)
{
    struct stat stream;

    for (int number = 1; number <= 2; number++)
        if (fstat(number, &stream) == 0 && stream.st_dev == file->st_dev && stream.st_ino == file->st_ino)
            return 1;
    return 0;
}

/* Open the file as nvcc's tools do, so that the kernel refuses the same. */
static int open_existing(struct pending *one)
{
    one->file = open(one->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (one->file < 0 || fstat(one->file, &one->before) != 0 || !S_ISREG(one->before.st_mode) ||
        is_stream(&one->before))
        return 0;
    one->is_in_place = 1;
    if ((off_t)one->size <= one->before.st_size && (off_t)one->size <= (off_t)one->before.st_blocks * BLOCK)
        return 1;
    return posix_fallocate(one->file, 0, (off_t)one->size) == 0;
}

static int prepare(struct pending *one)
{
    struct stat found;

    if (stat(one->path, &found) != 0)
        return errno == ENOENT && lstat(one->path, &found) != 0 && write_new(one);
    if (!S_ISREG(found.st_mode))
        return 0;
    if (!one->unlink_first || !found.st_size) /* the condition of binutils */
        return open_existing(one);
    if (write_new(one))
        return 1;
    return one->file < 0 && errno == EACCES && open_existing(one);
}

/* Give the file its name. */
static int link_new(struct pending *one)
{
    char path[64];

    futimens(one->file, NULL); /* a later product must not be older */
    sprintf(path, "/proc/self/fd/%d", one->file);
    for (int try = 0; try < LINK_TRIES; try++) {
        if (one->unlink_first)
            unlink(one->path);
        if (linkat(AT_FDCWD, path, AT_FDCWD, one->path, AT_SYMLINK_FOLLOW) == 0)
            return 1;
        if (errno != EEXIST || !one->unlink_first)
            return 0;
    }
    return 0;
}

static int commit(struct pending *one)
{
    if (!one->is_in_place)
        return link_new(one);
    one->is_torn = 1;
    if (!write_all(one->file, one->content, one->size) || ftruncate(one->file, (off_t)one->size) != 0)
        return 0;
    one->is_in_place = one->is_torn = 0;
    return 1;
}

/* Release products that were not written. A file that was to be overwritten is unchanged; if its content is lost,
   it is removed, so that make notices. */
static void let_go(struct pending *one)
{
    struct stat now;

    if (one->is_torn)
        unlink(one->path);
    else if (one->is_in_place && fstat(one->file, &now) == 0 &&
             (now.st_size == one->before.st_size || ftruncate(one->file, one->before.st_size) == 0))
        futimens(one->file, (struct timespec[]){one->before.st_atim, one->before.st_mtim});
    if (one->file >= 0)
        close(one->file);
    if (one->blob >= 0)
        close(one->blob);
}

static int give(int top, const struct call *call, const struct record *record, struct pending *pending)
{
    uint32_t count;
    const struct replay_product *products = section(record, IN_PRODUCTS, &count);

    if (count > MOST_PRODUCTS)
        return 0;
    for (uint32_t index = 0; index < count; index++)
        if (!take(top, call, record, &products[index], &pending[index]))
            return 0;
    for (uint32_t index = 0; index < count; index++)
        if (!prepare(&pending[index]))
            return 0;
    for (uint32_t index = 0; index < count; index++)
        if (!commit(&pending[index]))
            return 0;
    return 1;
}

int give_products(int top, const struct call *call, const struct record *record)
{
    struct pending pending[MOST_PRODUCTS];
    int is_given;

    memset(pending, 0, sizeof pending);
    for (size_t index = 0; index < MOST_PRODUCTS; index++)
        pending[index].blob = pending[index].file = -1;
    is_given = give(top, call, record, pending);
    for (size_t index = 0; index < MOST_PRODUCTS; index++)
        let_go(&pending[index]);
    return is_given;
}
