/* Finds the compiler of a call, and runs it if Python cannot be started. */

#include "launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether a program is nvccache or one of its shims, by the rules of nvcc_lookup.py. */
static int is_ours(const char *path)
{
    static char real[PATH_MAX], self[PATH_MAX];

    if (!realpath(path, real))
        return 0;
    if (strcmp(name_of(real), "nvccache") == 0 || strcmp(name_of(real), SCRIPT) == 0)
        return 1;
    return realpath("/proc/self/exe", self) && strcmp(real, self) == 0;
}

/* How often nvccache has started a program, given by its full path, among the ancestors of this process. */
static int times_tried(const char *path)
{
    const char *tried = getenv(TRIED);
    size_t length = strlen(path);
    int times = 0;

    for (const char *entry = tried; entry; entry = strchr(entry, ':')) {
        entry += *entry == ':';
        times += strncmp(entry, path, length) == 0 && (entry[length] == ':' || !entry[length]);
    }
    return times;
}

static int make_full(const char *path, char *full)
{
    char here[PATH_MAX] = "";

    if (*path != '/' && !getcwd(here, sizeof here))
        return 0;
    return snprintf(full, 2 * ROOM, "%s%s%s", here, *here ? "/" : "", path) < 2 * ROOM;
}

/* Whether a path is a program, is not nvccache, and was started fewer than `most` times among the ancestors. */
static int can_become(const char *path, int most)
{
    char full[2 * ROOM];
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0 && !is_ours(path) &&
           make_full(path, full) && times_tried(full) < most;
}

int find_on_path(const char *name, char *found)
{
    const char *path = getenv("PATH");

    for (const char *entry = path ? path : "/bin:/usr/bin"; entry; entry = strchr(entry, ':')) {
        int length;

        entry += *entry == ':';
        length = (int)strcspn(entry, ":");
        if (length < PATH_MAX &&
            snprintf(found, ROOM, "%.*s/%s", length ? length : 1, length ? entry : ".", name) < ROOM &&
            can_become(found, 1))
            return 1;
    }
    return 0;
}

void become(const char *path, char **words)
{
    const char *tried = getenv(TRIED);
    char full[2 * ROOM], *before = tried ? strdup(tried) : NULL, *noted;

    if (!make_full(path, full) || asprintf(&noted, "%s%s%s", tried ? tried : "", tried ? ":" : "", full) < 0)
        return;
    setenv(TRIED, noted, 1);
    words[0] = (char *)path;
    execvp(path, words); /* runs a script without #! by sh */
    if (before)
        setenv(TRIED, before, 1);
    else
        unsetenv(TRIED);
}

static int is_name_of_compiler(const char *word)
{
    static const char *const parts[] = {"nvc", "cc", "c++", "g++", "clang", "icpx"};

    for (size_t index = 0; *word != '-' && index < sizeof parts / sizeof *parts; index++)
        if (strstr(word, parts[index]))
            return 1;
    return 0;
}

/* Follows the rules of nvcc_lookup.py. */
char **find_compiler(const struct call *call, char *found)
{
    char **words = call->argv, named[PATH_MAX] = "";

    if (is_masquerade(call)) {
        if (!find_setting("NVCCACHE_NVCC", "nvcc", named) || !*named)
            strcpy(named, "nvcc");
    } else {
        do
            words++;
        while (*words && strcmp(name_of(*words), "nvccache") == 0);
        if (!*words || **words == '-' || strlen(*words) >= sizeof named ||
            !(strchr(*words, '/') || is_name_of_compiler(*words)))
            return NULL;
        strcpy(named, *words);
    }
    if (strchr(named, '/') && !is_ours(named)) {
        strcpy(found, named);
        return can_become(found, NESTED) ? words : NULL; /* no other compiler may run */
    }
    return find_on_path(strcmp(name_of(named), "nvccache") == 0 ? "nvcc" : name_of(named), found) ? words : NULL;
}

/* Run the compiler of this call without nvccache, since no build may fail because Python was removed or replaced. */
void run_compiler(const struct call *call)
{
    char found[ROOM], **words = find_compiler(call, found);

    if (words)
        become(found, words);
}
