/* Running the compiler when Python cannot. */

#include "launcher.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether a program is nvccache or one of its shims, by the rule of real_nvcc.py. */
static int is_ours(const char *path)
{
    static char real[PATH_MAX], self[PATH_MAX], first[MARK_WITHIN];
    ssize_t length;
    int descriptor;

    if (!realpath(path, real))
        return 0;
    if (strcmp(name_of(real), "nvccache") == 0 || strcmp(name_of(real), SCRIPT) == 0)
        return 1;
    if (realpath("/proc/self/exe", self) && strcmp(real, self) == 0)
        return 1;
    descriptor = open(real, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0)
        return 0;
    length = read(descriptor, first, sizeof first);
    close(descriptor);
    return length > 0 && memmem(first, (size_t)length, SHIM_MARK, strlen(SHIM_MARK)) != NULL;
}

/* Record that this program starts another; false if it did so `most` times already. */
static int note_tried(const char *path, int most)
{
    const char *tried = getenv(TRIED);
    size_t length = strlen(path), before = tried ? strlen(tried) + 1 : 0;
    char *noted = malloc(before + length + 1);

    if (!noted)
        return 0;
    for (const char *entry = tried; entry; entry = strchr(entry, ':')) {
        entry += *entry == ':';
        if (strncmp(entry, path, length) == 0 && (entry[length] == ':' || !entry[length]))
            most--;
    }
    sprintf(noted, "%s%s%s", tried ? tried : "", tried ? ":" : "", path);
    return most > 0 && setenv(TRIED, noted, 1) == 0;
}

/* Execute a compiler, unless it is none or has started us; returns if it cannot be started. */
static void become(const char *path, char **argv, int most)
{
    char full[2 * ROOM], here[PATH_MAX] = "";
    struct stat status;

    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || access(path, X_OK) != 0 || is_ours(path))
        return;
    if (*path != '/' && !getcwd(here, sizeof here))
        return;
    if (snprintf(full, sizeof full, "%s%s%s", here, *here ? "/" : "", path) >= (int)sizeof full)
        return;
    if (!note_tried(full, most))
        return;
    argv[0] = (char *)path;
    execvp(path, argv); /* which runs a script without #! by sh */
}

static void become_from_path(const char *name, char **argv)
{
    const char *path = getenv("PATH");
    char candidate[ROOM];

    for (const char *entry = path ? path : "/bin:/usr/bin"; entry; entry = strchr(entry, ':')) {
        int length;

        entry += *entry == ':';
        length = (int)strcspn(entry, ":");
        if (length > PATH_MAX)
            continue;
        if (snprintf(candidate, sizeof candidate, "%.*s/%s", length ? length : 1, length ? entry : ".", name) <
            (int)sizeof candidate)
            become(candidate, argv, 1);
    }
}

static int is_name_of_compiler(const char *word)
{
    static const char *const parts[] = {"nvc", "cc", "c++", "g++", "clang", "icpx"};

    for (size_t index = 0; *word != '-' && index < sizeof parts / sizeof *parts; index++)
        if (strstr(word, parts[index]))
            return 1;
    return 0;
}

/* Run the compiler of this call without nvccache: no build may fail because Python was removed or replaced. The
   settings file is not read here; NVCCACHE_NVCC counts. */
void run_compiler(const char *started, char **argv)
{
    const char *own = name_of(started), *named;

    if (strncmp(own, "nvcc", 4) == 0 && strncmp(own, "nvccache", 8) != 0) {
        named = getenv("NVCCACHE_NVCC");
        if (!named || !*named)
            named = "nvcc";
    } else {
        do
            named = *++argv;
        while (named && strcmp(name_of(named), "nvccache") == 0);
        if (!named || *named == '-' || !(strchr(named, '/') || is_name_of_compiler(named)))
            return;
    }
    if (strchr(named, '/') && !is_ours(named)) {
        become(named, argv, NESTED); /* this one or nothing */
        return;
    }
    become_from_path(strcmp(name_of(named), "nvccache") == 0 ? "nvcc" : name_of(named), argv);
}
