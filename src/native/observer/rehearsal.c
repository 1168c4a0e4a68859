/* A rehearsal: a wrapper is run up to where it starts a compiler, to see which command it becomes.

   The directory of the log then has a file `rehearsal`. A process that starts a compiler records its start, as the
   compiler itself would, and ends; from then on (`rehearsed` exists) no other program may be started. Nothing is changed
   before that: a process that is about to make, change or remove a file, or to start a program after the compiler, ends
   silently, and the incomplete log rejects the rehearsal. */

#include "observer.h"

#include <stdio.h>
#include <string.h>

int observer_rehearses;

static char rehearsed[PATH_MAX];
static const char *const host_compilers[] = {"gcc", "g++", "clang", "c++"};
static struct {
    uint64_t device, inode;
} of_caller[32];
static size_t count_of_caller;

static __attribute__((noreturn)) void leave_without_a_word(int status)
{
    for (;;)
        raw_call(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

/* For the directory of the log, with a trailing slash. The file identifies the descriptors that the caller has opened
   by their devices and inodes. */
void observer_set_rehearsal(const char *directory, size_t length)
{
    long descriptor, got;

    if (length + sizeof "rehearsed" > sizeof rehearsed)
        return;
    memcpy(rehearsed, directory, length);
    memcpy(rehearsed + length, "rehearsal", sizeof "rehearsal");
    descriptor = raw_openat(AT_FDCWD, rehearsed, O_RDONLY);
    memcpy(rehearsed + length, "rehearsed", sizeof "rehearsed");
    if (descriptor < 0)
        return;
    observer_rehearses = 1;
    got = raw_call(SYS_read, descriptor, (long)of_caller, sizeof of_caller, 0, 0, 0);
    count_of_caller = got > 0 ? (size_t)got / sizeof *of_caller : 0;
    raw_close((int)descriptor);
}

/* What is read there is missing in the run itself. */
void observer_takes_input(const struct stat *status)
{
    size_t at;

    for (at = 0; at < count_of_caller; at++)
        if (of_caller[at].device == status->st_dev && of_caller[at].inode == status->st_ino)
            leave_without_a_word(1);
}

void observer_changes(void)
{
    if (observer_rehearses)
        leave_without_a_word(1);
}

/* Writing to /dev/null changes nothing. */
void observer_opens(const char *path, int flags)
{
    int is_changing = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);

    if (observer_rehearses && is_changing && path && strcmp(path, "/dev/null") && strcmp(path, "/dev/tty"))
        leave_without_a_word(1);
}

/* As toolchain.is_compiler: a compiled gcc or clang; `real` is its path with links resolved. */
int observer_is_compiler(const char *real, const char *path)
{
    const char *name = strrchr(real, '/');
    char magic[4] = "";
    long descriptor;
    size_t count = sizeof host_compilers / sizeof *host_compilers;
    int is_named = 0;

    while (count--)
        is_named |= strstr(name ? name + 1 : real, host_compilers[count]) != NULL;
    if (!is_named)
        return 0;
    descriptor = raw_openat(AT_FDCWD, path, O_RDONLY);
    if (descriptor < 0)
        return 0;
    raw_call(SYS_read, descriptor, (long)magic, sizeof magic, 0, 0, 0);
    raw_close((int)descriptor);
    return !memcmp(magic, "\177ELF", 4);
}

/* A program begins whose start was not observed: it must not be the one looked for. */
void observer_begins(const char *real, const char *path)
{
    if (observer_rehearses && observer_is_compiler(real, path))
        leave_without_a_word(1);
}

static int is_rehearsed(void)
{
    return raw_call(SYS_faccessat, AT_FDCWD, (long)rehearsed, F_OK, 0, 0, 0) >= 0;
}

static long real_path_of(const char *path, char *room)
{
    char link[40];
    long descriptor = raw_openat(AT_FDCWD, path, O_PATH), length;

    if (descriptor < 0)
        return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%ld", descriptor);
    length = raw_readlink(link, room, PATH_MAX - 1);
    raw_close((int)descriptor);
    room[length < 0 ? 0 : length] = '\0';
    return length;
}

/* Before a program is started: if it is a compiler, its start and end are recorded and this process ends. */
void observer_starts(const char *path, char *const *words, char *const *variables)
{
    char room[PATH_MAX];
    long descriptor, parent = raw_call(SYS_getppid, 0, 0, 0, 0, 0, 0);

    if (!observer_rehearses)
        return;
    if (is_rehearsed())
        leave_without_a_word(1);
    if (real_path_of(path, room) <= 0 || !observer_is_compiler(room, path))
        return;
    observer_flush();  /* the start of a program begins a batch */
    observer_add('B', NO_PATH, room, 2, (long[]){LOG_VERSION, parent});
    if (raw_call(SYS_getcwd, (long)room, sizeof room, 0, 0, 0, 0) > 1)
        observer_add('C', NO_PATH, room, 0, NULL);
    observer_add_given();
    for (; *words; words++)
        observer_add('A', NO_PATH, *words, 0, NULL);
    observer_add_variables(variables);
    observer_add('Q', NO_PATH, "", 1, (long[]){0});
    observer_flush();
    descriptor = raw_openat(AT_FDCWD, rehearsed, O_WRONLY | O_CREAT);
    leave_without_a_word(descriptor < 0);
}
