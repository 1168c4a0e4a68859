/* Whether everything that a record names is unchanged (src/nvccache/records/replay.py). */

#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORTH_OPENING 4 /* files of one directory that are worth opening it */
#define MOST_GROUPS 1024

extern char **environ;

static int is_setting(const char *entry)
{
    static const char *const prefixes[] = OWN_PREFIXES;

    for (const char *const *prefix = prefixes; *prefix; prefix++)
        if (strncmp(entry, *prefix, strlen(*prefix)) == 0)
            return 1;
    return 0;
}

static int is_ignored(const char *entry, size_t length)
{
    static const char *const names[] = IGNORED_VARIABLES;

    for (const char *const *name = names; *name; name++)
        if (strlen(*name) == length && memcmp(*name, entry, length) == 0)
            return 1;
    return 0;
}

/* The number of an environment entry among the record's variables, which are sorted; UINT32_MAX for none. */
static uint32_t number_of(const struct record *record, const char *entry, size_t length)
{
    uint32_t low = 0, high;
    const uint32_t *variables = section(record, IN_VARIABLES, &high);

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const char *name = string(record, variables[middle]);
        size_t named = strlen(name);
        int order = memcmp(name, entry, named < length ? named : length);

        if (order == 0 && named == length)
            return middle;
        if (order < 0 || (order == 0 && named < length))
            low = middle + 1;
        else
            high = middle;
    }
    return UINT32_MAX;
}

static int is_of_prefix(const struct record *record, const char *entry)
{
    uint32_t count;
    const uint32_t *prefixes = section(record, IN_PREFIXES, &count);

    for (uint32_t index = 0; index < count; index++) {
        const char *prefix = string(record, prefixes[index]);

        if (strncmp(entry, prefix, strlen(prefix)) == 0)
            return 1;
    }
    return 0;
}

/* Find the entries of the record's variables; 0 if one is set that must not be. */
static int find_entries(const struct record *record, const char **found)
{
    for (char **entry = environ; *entry; entry++) {
        size_t length = strcspn(*entry, "=");
        uint32_t number = number_of(record, *entry, length);

        if (!length || !(*entry)[length])
            return 0; /* without `=`, so no variable */
        if (number != UINT32_MAX) {
            if (found[number])
                return 0; /* set twice */
            found[number] = *entry;
        } else if (is_setting(*entry) || (!is_ignored(*entry, length) && is_of_prefix(record, *entry))) {
            return 0;
        }
    }
    return 1;
}

/* Whether each of the record's variables has its value, and none is set that was not: of our own settings, all. */
int is_same_environment(const struct record *record)
{
    uint32_t count;
    const uint32_t *variables = section(record, IN_VARIABLES, &count);
    const char **found = calloc((size_t)count + 1, sizeof *found);
    unsigned char sum[SUM];
    size_t size = 0, length;
    char *text = NULL;
    int is_same = found && find_entries(record, found);

    for (uint32_t index = 0; is_same && index < count; index++) {
        found[index] = found[index] ? found[index] : string(record, variables[index]);
        size += strlen(found[index]) + 1;
    }
    text = is_same ? malloc(size + 1) : NULL;
    size = 0;
    for (uint32_t index = 0; text && index < count; index++, size += length) {
        length = strlen(found[index]) + 1;
        memcpy(text + size, found[index], length);
    }
    if (text)
        sum_of(text, size, sum);
    is_same = text && memcmp(sum, record->head->environment, SUM) == 0;
    free(text);
    free(found);
    return is_same;
}

static int by_number(const void *one, const void *other)
{
    gid_t first = *(const gid_t *)one, second = *(const gid_t *)other;

    return (first > second) - (first < second);
}

int is_same_reader(const struct record *record)
{
    static gid_t groups[MOST_GROUPS];
    uint32_t count;
    const uint32_t *recorded = section(record, IN_READER, &count);
    int found = getgroups(MOST_GROUPS, groups);

    if (found < 0 || count != (uint32_t)found + 2 || recorded[0] != geteuid() || recorded[1] != getegid())
        return 0;
    qsort(groups, (size_t)found, sizeof *groups, by_number);
    for (int index = 0; index < found; index++)
        if (groups[index] != recorded[index + 2])
            return 0;
    return 1;
}

/* Modulo 2**64: a date may be any number, and the change time exposes one that wraps around. */
static uint64_t nanoseconds(const struct timespec *time)
{
    return (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
}

static int is_same_file(const struct replay_file *recorded, const struct stat *now)
{
    return now->st_dev == recorded->device && now->st_ino == recorded->inode &&
           (uint64_t)now->st_size == recorded->size && nanoseconds(&now->st_mtim) == (uint64_t)recorded->modified &&
           nanoseconds(&now->st_ctim) == (uint64_t)recorded->changed;
}

/* The files of one directory. With a descriptor of it, the kernel need not resolve its path for each file. */
static int are_same_here(const struct record *record, const struct replay_file *file, uint32_t count)
{
    uint32_t directories;
    const uint32_t *paths = section(record, IN_DIRECTORIES, &directories);
    const char *path = string(record, paths[file->directory]);
    char joined[2 * PATH_MAX];
    int here = count < WORTH_OPENING ? -1 : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), is_same = 1;

    for (uint32_t index = 0; is_same && index < count; index++) {
        const char *name = string(record, file[index].name);
        struct stat now;

        if (here < 0 && snprintf(joined, sizeof joined, "%s/%s", path, name) >= PATH_MAX)
            is_same = 0;
        else
            is_same = fstatat(here < 0 ? AT_FDCWD : here, here < 0 ? joined : name, &now, 0) == 0 &&
                      is_same_file(&file[index], &now);
    }
    if (here >= 0)
        close(here);
    return is_same;
}

static int are_signed_files_same(const struct record *record)
{
    uint32_t count, next;
    const struct replay_file *files = section(record, IN_FILES, &count);

    for (uint32_t index = 0; index < count; index = next) {
        for (next = index + 1; next < count && files[next].directory == files[index].directory; next++)
            ;
        if (!are_same_here(record, files + index, next - index))
            return 0;
    }
    return 1;
}

/* What a name refers to, links followed (src/nvccache/files/presence.py). */
static uint32_t state_of(const char *path)
{
    struct stat now;

    if (stat(path, &now) != 0)
        return errno == ENOENT || errno == ENOTDIR ? '-' : '!';
    if (S_ISDIR(now.st_mode))
        return 'd';
    return S_ISREG(now.st_mode) && access(path, X_OK) == 0 ? 'x' : '+';
}

static int are_names_same(const struct record *record)
{
    uint32_t count;
    const uint32_t *paths = section(record, IN_ABSENT, &count);
    const struct replay_present *present;
    struct stat now;

    for (uint32_t index = 0; index < count; index++)
        if (state_of(string(record, paths[index])) != '-')
            return 0;
    present = section(record, IN_PRESENT, &count);
    for (uint32_t index = 0; index < count; index++)
        if (state_of(string(record, present[index].path)) != present[index].state)
            return 0;
    paths = section(record, IN_PLAIN, &count);
    for (uint32_t index = 0; index < count; index++)
        if (lstat(string(record, paths[index]), &now) == 0 && S_ISLNK(now.st_mode))
            return 0;
    return 1;
}

static int are_links_same(const struct record *record)
{
    uint32_t count;
    const uint32_t *links = section(record, IN_LINKS, &count);
    char real[PATH_MAX];

    for (uint32_t index = 0; index < count; index++)
        if (!realpath(string(record, links[2 * index]), real) ||
            strcmp(real, string(record, links[2 * index + 1])) != 0)
            return 0;
    return 1;
}

/* Whether paths still name the same directories, or none. */
static int are_identities_same(const struct record *record)
{
    uint32_t count;
    const struct replay_identity *identities = section(record, IN_IDENTITIES, &count);
    struct stat now;

    for (uint32_t index = 0; index < count; index++) {
        if (stat(string(record, (uint32_t)identities[index].path), &now) != 0)
            now.st_dev = 0, now.st_ino = 0;
        if (now.st_dev != identities[index].device || now.st_ino != identities[index].inode)
            return 0;
    }
    return 1;
}

int are_same_files(const struct record *record)
{
    return are_signed_files_same(record) && are_names_same(record) && are_links_same(record) &&
           are_identities_same(record);
}
