/* Which build a call belongs to (src/nvccache/machine/builds.py). */

#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_ANCESTORS 64

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

/* The parent of a process, its session, and its start in ticks. */
static int look_at(const char *pid, long *parent, long *session, unsigned long long *started)
{
    char path[64], text[4096], *end;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    end = read_file(path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    return end && sscanf(end, ") %*c %ld %*d %ld %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                         parent, session, started) == 3;
}

/* PID and start of the topmost ancestor below the session's leader; empty if there is none. */
void find_build(char *build, size_t size)
{
    char pid[32] = "self";
    long parent, session, of_session;
    unsigned long long started;

    *build = '\0';
    if (!look_at(pid, &parent, &session, &started))
        return;
    for (int count = 0; count < MOST_ANCESTORS; count++) {
        if (parent == session || parent <= 1)
            return;
        snprintf(pid, sizeof pid, "%ld", parent);
        if (!look_at(pid, &parent, &of_session, &started) || of_session != session)
            break;
        snprintf(build, size, "%s-%llu", pid, started);
    }
    *build = '\0';
}
