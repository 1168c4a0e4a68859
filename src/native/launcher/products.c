/* Writes products in the same way as src/nvccache/records/products.py. A product is written into an existing file, or
   into a new one without a name (O_TMPFILE) until all are complete. Python handles file systems without O_TMPFILE. */

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
    int is_in_place;
    int blob; /* a descriptor, or -1 */
    int file;
};

/* Read the content of a blob, whose checksum must be right, and mark the blob as used. */
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

static int take(int top, const struct call *call, const struct record *record, const struct replay_product *product,
                struct pending *one)
{
    one->path = string(record, product->path);
    one->size = product->size;
    one->unlink_first = product->unlink_first != 0;
    if (product->blob)
        return take_blob(top, string(record, product->blob), product, &call->began, one);
    one->content = string(record, product->content);
    return 1;
}

/* Write the content into an empty file, by cloning the blob if the file system supports that. */
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

static int prepare(struct pending *one)
{
    struct stat old;

    if (stat(one->path, &old) != 0)
        return errno == ENOENT && write_new(one);
    if (!S_ISREG(old.st_mode))
        return 0;
    if (one->unlink_first && old.st_size) /* binutils have the same condition */
        return write_new(one);
    one->is_in_place = 1;
    one->file = open(one->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    return one->file >= 0;
}

static int commit(struct pending *one)
{
    char path[64];

    if (one->is_in_place) {
        if (write_all(one->file, one->content, one->size) && ftruncate(one->file, (off_t)one->size) == 0)
            return 1;
        unlink(one->path); /* its content is lost, and make must notice that */
        return 0;
    }
    futimens(one->file, NULL); /* no product may be older than one written before it */
    sprintf(path, "/proc/self/fd/%d", one->file);
    if (one->unlink_first)
        unlink(one->path);
    return linkat(AT_FDCWD, path, AT_FDCWD, one->path, AT_SYMLINK_FOLLOW) == 0;
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
    for (size_t index = 0; index < MOST_PRODUCTS; index++) {
        if (pending[index].file >= 0)
            close(pending[index].file);
        if (pending[index].blob >= 0)
            close(pending[index].blob);
    }
    return is_given;
}
