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

/* Read a file and end it with NUL; the bytes read, or -1 if it cannot be read or does not fit. */
int read_file(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    size_t length = 0;
    ssize_t got = 1;

    if (file < 0)
        return -1;
    while (length < size && (got = read(file, text + length, size - length)) > 0)
        length += (size_t)got;
    close(file);
    if (got < 0 || length == size) {
        errno = EFBIG;
        return -1;
    }
    text[length] = '\0';
    return (int)length;
}
