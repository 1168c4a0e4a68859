/* Starting other programs, and ending this one. */

#include "observer.h"

#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXEC_ROOM (PATH_MAX + NAME_MAX + 2)

extern char **environ;

/* Search PATH for a program and record each lookup, since the C library's own search is not observed. Returns the path,
   in `room`, or the name itself if nothing was found. */
static const char *find_program(const char *name, char *room)
{
    const char *directories = NULL, *end;
    size_t length = strlen(name), size;
    char **variable;

    if (strchr(name, '/') || length > NAME_MAX)
        return name;
    for (variable = environ; variable && *variable && !directories; variable++)
        if (!strncmp(*variable, "PATH=", 5))
            directories = *variable + 5;
    observer_add('e', NO_PATH, "PATH", 0, NULL);
    if (!directories)
        directories = "/bin:/usr/bin";
    for (;; directories = end + 1) {
        struct stat status;
        long result;

        end = strchrnul(directories, ':');
        size = (size_t)(end - directories);
        if (size < PATH_MAX) {
            memcpy(room, directories, size);
            if (size)
                room[size++] = '/';
            memcpy(room + size, name, length + 1);
            result = raw_call(SYS_faccessat, AT_FDCWD, (long)room, X_OK, 0, 0, 0);
            ADD('a', room, -result, X_OK);
            if (!result && !raw_stat(room, &status) && S_ISREG(status.st_mode))
                return room;
        }
        if (!*end)
            return name;
    }
}

static void before_exec(const char *path)
{
    observer_new_objects();
    observer_streams();
    observer_add('x', FROM_ROOT, path, 0, NULL);
    observer_flush();
}

static void after_failed_exec(const char *path)
{
    ADD_WORD('X', path, errno);
    if (errno != EFAULT)
        ADD('a', path, errno, X_OK);
}

#define EXEC(name, path, parameters, arguments) \
    int name parameters \
    { \
        REAL(name, -1) \
        __attribute__((unused)) char room[EXEC_ROOM]; \
        const char *program = path; \
        before_exec(program); \
        int result = real arguments; \
        after_failed_exec(program); \
        return result; \
    }

EXEC(execve, path, (const char *path, char *const *words, char *const *variables), (path, words, variables))
EXEC(execv, path, (const char *path, char *const *words), (path, words))
EXEC(execvp, find_program(file, room), (const char *file, char *const *words), (file, words))
EXEC(execvpe, find_program(file, room), (const char *file, char *const *words, char *const *variables),
     (file, words, variables))

int fexecve(int descriptor, char *const *words, char *const *variables)
{
    REAL(fexecve, -1)
    observer_new_objects();
    observer_add('x', descriptor, "", 0, NULL);
    observer_flush();
    int result = real(descriptor, words, variables);
    ADD_WORD('X', "", errno);
    return result;
}

#include "execl.h"

static void after_spawn(const char *path, int error, long child)
{
    if (error)
        ADD('a', path, error, X_OK);
    else
        observer_add('p', FROM_ROOT, path, 1, &child);
}

#define SPAWN(name, program) \
    int name(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, \
             const posix_spawnattr_t *attributes, char *const *words, char *const *variables) \
    { \
        REAL(name, ENOSYS) \
        __attribute__((unused)) char room[EXEC_ROOM]; \
        pid_t child = 0; \
        const char *path = program; \
        observer_flush(); \
        int error = real(&child, file, actions, attributes, words, variables); \
        if (pid && !error) \
            *pid = child; \
        after_spawn(path, error, child); \
        return error; \
    }

SPAWN(posix_spawn, file)
SPAWN(posix_spawnp, find_program(file, room))

/* The child opens this file inside the C library, unobserved, before it executes the program. */
int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int descriptor, const char *path, int flags,
                                     mode_t mode)
{
    REAL(posix_spawn_file_actions_addopen, ENOSYS)
    if (strcmp(path, "/dev/null"))
        observer_add('g', AT_FDCWD, path, 0, NULL);
    return real(actions, descriptor, path, flags, mode);
}

static void after_shell(int is_started)
{
    if (is_started)
        observer_add('S', NO_PATH, "/bin/sh", 0, NULL);
}

int system(const char *command)
{
    REAL(system, -1)
    observer_flush();
    int status = real(command);
    after_shell(command && status != -1);
    return status;
}

FILE *popen(const char *command, const char *mode)
{
    REAL(popen, NULL)
    observer_flush();
    FILE *stream = real(command, mode);
    after_shell(stream != NULL);
    return stream;
}

static pid_t forked(long child)
{
    if (child > 0)
        observer_add('f', NO_PATH, "", 1, &child);
    return (pid_t)child;
}

/* The handlers that process.c registers write the collected records before a fork. vfork cannot be wrapped, since it
   returns twice; its child is observed when it executes a program. */
pid_t fork(void)
{
    REAL(fork, -1)
    return forked(real());
}

pid_t _Fork(void);
pid_t _Fork(void)
{
    REAL(_Fork, -1)
    observer_before_fork();
    pid_t child = real();
    observer_after_fork();
    return forked(child);
}

static __attribute__((noreturn)) void leave(int status, void (*real)(int))
{
    observer_new_objects();
    observer_end(status);
    if (real)
        real(status);
    for (;;)
        raw_call(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

void _exit(int status)
{
    leave(status, NULL);
}

void _Exit(int status)
{
    leave(status, NULL);
}

void quick_exit(int status)
{
    leave(status, (void (*)(int))observer_find("quick_exit"));
}

static void before_load(const char *name, int is_apart)
{
    observer_loads();
    if (is_apart)
        observer_lose("libraries were loaded that may bypass the observer");
    if (name && strchr(name, '/'))
        ADD('a', name, -raw_call(SYS_faccessat, AT_FDCWD, (long)name, F_OK, 0, 0, 0), F_OK);
}

/* For the search for a name, and for `$ORIGIN`, the C library looks at the address to which it will return. This must
   be in the program, not in the observer, so the call below must become a jump, to which gcc compiles a call at the end
   of a function. */
#if defined(__has_attribute)
#if __has_attribute(musttail)
#define JUMP __attribute__((musttail))
#endif
#endif
#ifndef JUMP
#ifdef __clang__
#error "this clang cannot promise a jump"
#endif
#define JUMP
#endif

void *dlopen(const char *name, int flags)
{
    REAL(dlopen, NULL)
    before_load(name, flags & RTLD_DEEPBIND);
    JUMP return real(name, flags);
}

void *dlmopen(Lmid_t space, const char *name, int flags)
{
    REAL(dlmopen, NULL)
    before_load(name, 1);
    JUMP return real(space, name, flags);
}

int dlclose(void *handle)
{
    REAL(dlclose, -1)
    observer_new_objects();
    return real(handle);
}
