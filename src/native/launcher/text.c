/* Names, lists of words and small files. */

#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

int is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return 1;
    return 0;
}

/* Read a file, as far as there is room, and add a NUL; returns the number of bytes read, or -1. */
int read_file(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = 1;

    if (file < 0)
        return -1;
    while (length < size - 1 && (got = read(file, text + length, size - 1 - length)) > 0)
        length += (size_t)got;
    close(file);
    text[length] = '\0';
    return got < 0 ? -1 : (int)length;
}

int write_all(int file, const void *content, uint64_t size)
{
    for (const char *rest = content; size;) {
        ssize_t written = write(file, rest, size);

        if (written > 0)
            rest += written, size -= (uint64_t)written;
        else if (written < 0 && errno == EAGAIN) /* the stream is non-blocking */
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        else if (written == 0 || errno != EINTR)
            return 0;
    }
    return 1;
}
