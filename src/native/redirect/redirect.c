/* This library is preloaded into an nvcc that is a script (launcher/script.c), and thus into the programs that the
   script starts. If one of them executes an nvcc that is a compiled program, it executes the nvccache next to this
   library instead, with that nvcc as its first argument:

       execve("/cuda/bin/nvcc", {"nvcc", "-c", ...})  ->  execve(".../nvccache", {"nvccache", "/cuda/bin/nvcc", "-c", ...})

   All other programs are executed unchanged; so is nvcc if nvccache cannot be executed. Nothing is allocated, since a
   child of vfork shares its parent's memory. */

#include "../observer/real.c"

#include <alloca.h>
#include <spawn.h>
#include <string.h>

#define ROOM (PATH_MAX + NAME_MAX + 2)

extern char **environ;

static char nvccache[PATH_MAX]; /* empty if nothing must be redirected */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

__attribute__((constructor)) static void find_nvccache(void)
{
    const struct link_map *object = _r_debug.r_map;
    char program[PATH_MAX] = "";

    raw_readlink("/proc/self/exe", program, sizeof program - 1);
    if (!strncmp(name_of(program), "nvccache", 8)) /* nvccache itself must run the nvcc that it is given */
        return;
    while (object && object->l_ld != _DYNAMIC)
        object = object->l_next;
    if (object && strlen(object->l_name) < sizeof nvccache) {
        strcpy(nvccache, object->l_name);
        strcpy(nvccache + (name_of(nvccache) - nvccache), "nvccache"); /* fits, since the library's name is longer */
    }
}

/* The path of the program that a name leads to on PATH, in `room`; or the name itself. */
static const char *find_program(const char *name, char *const *variables, char *room)
{
    const char *directories = "/bin:/usr/bin", *end;
    size_t length = strlen(name);

    if (strchr(name, '/') || length > NAME_MAX)
        return name;
    for (; variables && *variables; variables++)
        if (!strncmp(*variables, "PATH=", 5))
            directories = *variables + 5;
    for (;; directories = end + 1) {
        size_t size;

        end = strchrnul(directories, ':');
        size = (size_t)(end - directories);
        if (size < PATH_MAX) {
            struct stat status;

            memcpy(room, directories, size);
            if (!size)
                room[size++] = '.';
            room[size++] = '/';
            memcpy(room + size, name, length + 1);
            if (!raw_call(SYS_faccessat, AT_FDCWD, (long)room, X_OK, 0, 0, 0) && !raw_stat(room, &status)
                && S_ISREG(status.st_mode))
                return room;
        }
        if (!*end)
            return name;
    }
}

static int is_compiled(const char *path)
{
    char magic[4] = "";
    long descriptor = raw_openat(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);

    if (descriptor < 0)
        return 0;
    raw_call(SYS_read, descriptor, (long)magic, sizeof magic, 0, 0, 0);
    raw_close((int)descriptor);
    return !memcmp(magic, "\177ELF", 4);
}

/* If nvccache must be executed instead of this program, the nvcc that nvccache then has to run; otherwise, NULL. nvcc
   finds its toolkit by argv[0], so this name or path must lead to the program itself. */
static const char *nvcc_of(const char *path, char *const *words, char *const *variables)
{
    struct stat program, named;
    char room[ROOM];
    const char *name = name_of(path), *called;

    if (!*nvccache || name == path || strncmp(name, "nvcc", 4) || !strncmp(name, "nvccache", 8) || !words || !words[0])
        return NULL;
    called = find_program(words[0], variables, room);
    if (called == words[0] && !strchr(called, '/'))
        return NULL;
    if (raw_stat(path, &program) < 0 || raw_stat(called, &named) < 0 || program.st_dev != named.st_dev
        || program.st_ino != named.st_ino || !is_compiled(path))
        return NULL;
    return strchr(words[0], '/') ? words[0] : path;
}

static size_t count_of(char *const *words)
{
    size_t count = 0;

    while (words && words[count])
        count++;
    return count;
}

/* For functions with `words` and `variables`: if `path` is an nvcc to redirect, `changed` is the argv of nvccache. */
#define REDIRECT(path) \
    const char *nvcc = nvcc_of(path, words, variables); \
    size_t size = nvcc ? count_of(words) * sizeof *words : 0; \
    char **changed = alloca(size + 2 * sizeof *words); \
    changed[0] = "nvccache"; \
    changed[1] = (char *)(uintptr_t)nvcc; \
    if (nvcc) \
        memcpy(changed + 2, words + 1, size); /* with the NULL at the end */

int execve(const char *path, char *const *words, char *const *variables)
{
    REAL(execve, -1)
    REDIRECT(path)
    if (nvcc)
        real(nvccache, changed, variables);
    return real(path, words, variables);
}

int execvpe(const char *file, char *const *words, char *const *variables)
{
    char room[ROOM];
    REAL(execvpe, -1)
    REDIRECT(find_program(file, environ, room))
    if (nvcc)
        real(nvccache, changed, variables);
    return real(file, words, variables);
}

int execv(const char *path, char *const *words)
{
    return execve(path, words, environ);
}

int execvp(const char *file, char *const *words)
{
    return execvpe(file, words, environ);
}

#include "../observer/execl.h"

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const *words, char *const *variables)
{
    REAL(posix_spawn, ENOSYS)
    REDIRECT(path)
    if (nvcc && !real(pid, nvccache, actions, attributes, changed, variables))
        return 0;
    return real(pid, path, actions, attributes, words, variables);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const *words, char *const *variables)
{
    char room[ROOM];
    REAL(posix_spawnp, ENOSYS)
    REDIRECT(find_program(file, environ, room))
    if (nvcc && !real(pid, nvccache, actions, attributes, changed, variables))
        return 0;
    return real(pid, file, actions, attributes, words, variables);
}
