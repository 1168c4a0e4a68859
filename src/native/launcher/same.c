/* Whether everything that a record names is unchanged (src/nvccache/records/replay.py). */

#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORTH_OPENING 4 /* for so many files, opening their directory saves time */
#define MOST_GROUPS 1024

extern char **environ;

struct name {
    const struct record *record;
    const char *text;
};

/* Compares a name with one of the record's variables, which are sorted. */
static int by_name(const void *name, const void *variable)
{
    return strcmp(((const struct name *)name)->text,
                  string(((const struct name *)name)->record, *(const uint32_t *)variable));
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

/* Find the environment's entries for the record's variables; fails if a variable is set that must not be set. */
static int find_entries(const struct record *record, const char **found)
{
    static const char *const ignored[] = IGNORED_VARIABLES;
    uint32_t count;
    const uint32_t *variables = section(record, IN_VARIABLES, &count), *variable;

    for (char **entry = environ; *entry; entry++) {
        char *end = strchr(*entry, '=');
        int is_allowed;

        if (!end || end == *entry)
            return 0; /* no variable */
        *end = '\0';
        variable = bsearch(&(struct name){record, *entry}, variables, count, sizeof *variables, by_name);
        is_allowed = variable ? !found[variable - variables] /* false if it is set twice */
                              : is_one_of(*entry, ignored) || !is_of_prefix(record, *entry);
        *end = '=';
        if (!is_allowed)
            return 0;
        if (variable)
            found[variable - variables] = *entry;
    }
    return 1;
}

/* Whether the record's variables have their recorded values, and no other variable has one of the record's prefixes. */
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

/* The stat signature of a file. Dates can be any number, and are computed modulo 2**64; if a modification time wraps
   around, the change time still differs. */
static struct replay_signature signature_of(const struct stat *now)
{
    return (struct replay_signature){
        now->st_dev, now->st_ino, (uint64_t)now->st_size,
        (int64_t)((uint64_t)now->st_mtim.tv_sec * 1000000000 + (uint64_t)now->st_mtim.tv_nsec),
        (int64_t)((uint64_t)now->st_ctim.tv_sec * 1000000000 + (uint64_t)now->st_ctim.tv_nsec),
    };
}

static int has_signature(const struct stat *now, const struct replay_signature *recorded)
{
    struct replay_signature found = signature_of(now);

    return memcmp(&found, recorded, sizeof found) == 0;
}

/* Store the new signature of a touched file or directory if any further change will certainly change it
   (signatures.is_settled): the device, whose dates are reliable, is the same, and the change time has fractions, unlike
   an image's. */
static void sign_again(struct record *record, struct replay_signature *recorded, const struct stat *now)
{
    if (now->st_dev != recorded->device || !now->st_ctim.tv_nsec || now->st_ctim.tv_sec >= record->settled ||
        now->st_mtim.tv_sec >= record->settled)
        return;
    *recorded = signature_of(now);
    record->is_touched = 1;
}

/* Whether another file of the record has this size. */
static int is_size_of_another(const struct record *record, const struct replay_file *recorded, uint64_t size)
{
    uint32_t count;
    const struct replay_file *files = section(record, IN_FILES, &count);

    for (uint32_t index = 0; index < count; index++)
        if (files + index != recorded && files[index].signature.size == size)
            return 1;
    return 0;
}

/* Whether a file's content is as recorded, or differs only in comments that do not matter. Python compares a file that
   may have become equal to another, since `#pragma once` skips equal files. */
static int is_same_content(const struct record *record, struct replay_file *recorded, void *content, uint64_t size)
{
    unsigned char sum[SUM], code[SUM];

    sum_of(content, size, sum);
    if (memcmp(sum, recorded->sum, SUM) == 0)
        return size == recorded->signature.size;
    if (is_size_of_another(record, recorded, size) || !sum_of_code(content, size, code) ||
        memcmp(code, recorded->code, SUM) != 0)
        return 0;
    memcpy(recorded->sum, sum, SUM);
    recorded->signature.size = size;
    return 1;
}

/* Whether a touched file has its recorded content or code. Python handles links, and files that change while they are
   read. */
static int has_same_content(struct record *record, int directory, const char *path, struct replay_file *recorded)
{
    static const unsigned char none[SUM];
    struct stat before, after;
    void *content = NULL;
    int is_same, file = openat(directory, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (file < 0)
        return 0;
    if (memcmp(recorded->sum, none, SUM) != 0 && fstat(file, &before) == 0 && S_ISREG(before.st_mode) &&
        ((uint64_t)before.st_size == recorded->signature.size || before.st_size <= LARGEST_CODE))
        content = content_of(file, (uint64_t)before.st_size);
    is_same = content && fstat(file, &after) == 0;
    if (is_same) {
        struct replay_signature signature = signature_of(&before);

        is_same = has_signature(&after, &signature) &&
                  is_same_content(record, recorded, content, (uint64_t)before.st_size);
    }
    if (is_same)
        sign_again(record, &recorded->signature, &after);
    free(content);
    close(file);
    return is_same;
}

/* Whether the files of one directory are unchanged. Opening it saves resolving its path for each file. */
static int are_same_here(struct record *record, struct replay_file *file, uint32_t count)
{
    uint32_t directories;
    const uint32_t *paths = section(record, IN_DIRECTORIES, &directories);
    const char *path = string(record, paths[file->directory]);
    char joined[2 * PATH_MAX];
    int here = count < WORTH_OPENING ? -1 : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), is_same = 1;

    for (; is_same && count; count--, file++) {
        const char *name = string(record, file->name);
        int directory = here < 0 ? AT_FDCWD : here;
        struct stat now;

        if (here < 0 && snprintf(joined, sizeof joined, "%s/%s", path, name) >= PATH_MAX)
            is_same = 0;
        else if (here < 0)
            name = joined;
        is_same = is_same && fstatat(directory, name, &now, 0) == 0 &&
                  (has_signature(&now, &file->signature) || has_same_content(record, directory, name, file));
    }
    if (here >= 0)
        close(here);
    return is_same;
}

static int are_signed_files_same(struct record *record)
{
    uint32_t count, next;
    struct replay_file *files = section(record, IN_FILES, &count);

    for (uint32_t index = 0; index < count; index = next) {
        for (next = index + 1; next < count && files[next].directory == files[index].directory; next++)
            ;
        if (!are_same_here(record, files + index, next - index))
            return 0;
    }
    return 1;
}

/* What exists at a path (src/nvccache/files/presence.py), and whether the path itself is a link; links are followed. */
static uint32_t state_of(const char *path, int *is_link)
{
    struct stat now;
    int status = lstat(path, &now);

    *is_link = status == 0 && S_ISLNK(now.st_mode);
    if (*is_link)
        status = stat(path, &now);
    if (status != 0)
        return errno == ENOENT || errno == ENOTDIR ? '-' : '!';
    if (S_ISDIR(now.st_mode))
        return 'd';
    return S_ISREG(now.st_mode) && access(path, X_OK) == 0 ? 'x' : '+';
}

/* Whether the names that were looked up in each directory are unchanged. They are unchanged if the directory has its
   recorded signature. A directory with links gets no new signature, since their targets can change without it. */
static int are_names_same(struct record *record)
{
    uint32_t count, names;
    struct replay_folder *folder = section(record, IN_FOLDERS, &count);
    const struct replay_name *name = section(record, IN_NAMES, &names), *end;
    char path[2 * PATH_MAX];
    struct stat now;

    for (; count; count--, folder++) {
        const char *directory = string(record, folder->path);
        int is_there = stat(directory, &now) == 0, has_links = 0, is_link;

        end = name + folder->names;
        if (is_there && has_signature(&now, &folder->signature)) {
            name = end;
            continue;
        }
        for (; name < end; name++, has_links |= is_link)
            if (snprintf(path, sizeof path, "%s/%s", directory, string(record, name->name)) >= PATH_MAX ||
                state_of(path, &is_link) != name->state)
                return 0;
        if (is_there && !has_links)
            sign_again(record, &folder->signature, &now);
    }
    return 1;
}

static int are_directories_plain(const struct record *record)
{
    uint32_t count;
    const uint32_t *paths = section(record, IN_PLAIN, &count);
    struct stat now;

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

int are_same_files(struct record *record)
{
    return are_signed_files_same(record) && are_names_same(record) && are_directories_plain(record) &&
           are_links_same(record);
}

/* Whether the machine has not rebooted, if the record depends on the machine. */
int is_same_machine(const struct record *record)
{
    const char *recorded = string(record, record->head->boot);
    char boot[128];

    if (!*recorded)
        return 1;
    if (read_file(BOOT, boot, sizeof boot) <= 0)
        return 0;
    boot[strcspn(boot, "\n")] = '\0';
    return strcmp(boot, recorded) == 0;
}
