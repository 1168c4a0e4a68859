/* The call as typed, and the cache directory that it uses, as far as this can be known without Python.

   Both are in the block of bytes that identifies a call. The checksum of this block is the name of the call's record,
   which also contains the block. A wrong guess of the cache directory does no harm: if Python finds another one, it
   writes no record of the call. */

#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST_CALL (1 << 18) /* bytes of all arguments; longer calls go to Python */
#define LONGEST_SETTINGS (1 << 14)

static char block[LONGEST_CALL];
static size_t block_size;
static int is_too_long;

static void add(const char *text)
{
    size_t size = strlen(text) + 1;

    if (size > sizeof block - block_size) {
        is_too_long = 1;
        return;
    }
    memcpy(block + block_size, text, size);
    block_size += size;
}

/* Make a path absolute, without `.`, `..` and repeated slashes, in the same way as os.path.abspath. */
static int make_absolute(const char *path, const char *cwd, char *absolute)
{
    char joined[2 * PATH_MAX], *end = absolute;
    int length = snprintf(joined, sizeof joined, "%s/%s", *path == '/' ? "" : cwd, path);

    if (length >= PATH_MAX || (path[0] == '/' && path[1] == '/' && path[2] != '/')) /* Python keeps these two slashes */
        return 0;
    for (char *part = strtok(joined, "/"); part; part = strtok(NULL, "/")) {
        if (strcmp(part, ".") == 0)
            continue;
        if (strcmp(part, "..") == 0) {
            while (end > absolute && *--end != '/')
                ;
            continue;
        }
        end += sprintf(end, "/%s", part);
    }
    strcpy(end, end == absolute ? "/" : "");
    return 1;
}

/* The value of a variable if it is an absolute path; otherwise, HOME followed by `below`. */
static int find_base(const char *variable, const char *below, char *path)
{
    const char *base = getenv(variable), *home = getenv("HOME");

    if (base && *base == '/')
        return snprintf(path, PATH_MAX, "%s", base) < PATH_MAX;
    return home && *home == '/' && snprintf(path, PATH_MAX, "%s/%s", home, below) < PATH_MAX;
}

/* Read a setting, or an empty value, from the settings file. Fails if only Python can read the file. */
static int take_from_settings(const char *name, char *value)
{
    static char text[LONGEST_SETTINGS];
    char path[PATH_MAX + 32], *line, *end;
    size_t length = strlen(name);
    int size;

    *value = '\0';
    if (!find_base("XDG_CONFIG_HOME", ".config", path))
        return 0;
    strcat(path, "/nvccache/config.toml");
    size = read_file(path, text, sizeof text);
    if (size < 0)
        return errno == ENOENT || errno == ENOTDIR;
    if (size == sizeof text - 1)
        return 0;
    for (line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) != 0 || line[length + strspn(line + length, " ")] != '=')
            continue;
        line += length + strspn(line + length, " =");
        end = *line == '"' || *line == '\'' ? strchr(line + 1, *line) : NULL;
        return end && snprintf(value, PATH_MAX, "%.*s", (int)(end - line - 1), line + 1) < PATH_MAX;
    }
    return 1;
}

int find_setting(const char *variable, const char *name, char *value)
{
    const char *given = getenv(variable);

    if (!given || !*given)
        return take_from_settings(name, value);
    return snprintf(value, PATH_MAX, "%s", given) < PATH_MAX;
}

static int guess_cache(struct call *call)
{
    const char *home = getenv("HOME");
    char named[PATH_MAX], path[2 * PATH_MAX];

    if (!find_setting("NVCCACHE_DIR", "dir", named))
        return 0;
    if (!*named) {
        if (!find_base("XDG_CACHE_HOME", ".cache", path))
            return 0;
        strcat(path, "/nvccache");
    } else if (named[0] == '~' && (named[1] == '/' || !named[1]) && home && *home == '/') {
        snprintf(path, sizeof path, "%s%s", home, named + 1);
    } else {
        strcpy(path, named);
    }
    return make_absolute(path, call->cwd, call->cache);
}

/* Whether this program was started under the name nvcc. */
int is_masquerade(const struct call *call)
{
    const char *name = name_of(call->started);

    return strncmp(name, "nvcc", 4) == 0 && strncmp(name, "nvccache", 8) != 0;
}

int describe_call(struct call *call)
{
    static const char *const variables[] = VARIABLES_OF_CALL;
    unsigned char sum[SUM];
    char text[32];

    if (!getcwd(call->cwd, sizeof call->cwd) || !guess_cache(call))
        return 0;
    sprintf(text, "%d", call->argc - 1);
    add(call->started);
    add(text);
    for (int index = 1; index < call->argc; index++)
        add(call->argv[index]);
    add(call->cwd);
    for (const char *const *name = variables; *name; name++) {
        const char *value = getenv(*name);

        add(*name);
        if (value) {
            block[block_size - 1] = '=';
            add(value);
        }
    }
    add(call->cache);
    if (is_too_long)
        return 0;
    call->block = block, call->block_size = block_size;
    sum_of(block, block_size, sum);
    for (int index = 0; index < SUM; index++)
        sprintf(call->name + 2 * index, "%02x", sum[index]);
    return 1;
}
