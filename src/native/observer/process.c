/* The start and the end of a process: its program, arguments, directory, and loaded objects. */

#include "observer.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

extern char **environ;
extern const char __ehdr_start __attribute__((visibility("hidden")));  /* the observer, by the linker */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);

#define LOG_VARIABLE "_NVCCACHE_SCRATCH=" /* as in observation/observer.py */

static dev_t device_of_exe;
static ino_t inode_of_exe;
static volatile int may_have_more; /* objects may have been loaded since they were last recorded */

static const char *words, *end_of_words; /* the arguments, which the kernel put one after the other */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Compares only the last parts of paths, since interpreters may make the path of their script absolute. */
void observer_opened(const char *path)
{
    const char *word;

    for (word = words; word < end_of_words && !observer_phase; word += strlen(word) + 1)
        observer_phase = !strcmp(last_part(word), last_part(path));
}

/* The value of a variable, or NULL if it is not set; `name` ends with `=`. */
static const char *value_of(const char *name)
{
    char **variable;

    for (variable = environ; variable && *variable; variable++)
        if (!strncmp(*variable, name, strlen(name)))
            return *variable + strlen(name);
    return NULL;
}

/* Add the first records of a process. Needs the lock of the log. */
void observer_compose_start(void)
{
    static char path[PATH_MAX];
    long length = raw_readlink("/proc/self/exe", path, sizeof path), parent = raw_call(SYS_getppid, 0, 0, 0, 0, 0, 0);

    observer_set_log(value_of(LOG_VARIABLE));
    if (length <= 0)
        observer_lose("the program has no path");
    observer_compose('B', NO_PATH, path, length < 0 ? 0 : (size_t)length, 2, (long[]){LOG_VERSION, parent});
    length = raw_call(SYS_getcwd, (long)path, sizeof path, 0, 0, 0, 0);
    if (length <= 1 || path[0] != '/')
        observer_lose("the working directory has no path");
    else
        observer_compose('C', NO_PATH, path, (size_t)length - 1, 0, NULL);
}

static void add_object(const char *name, const char *file)
{
    struct stat status;

    if (raw_stat(file, &status) < 0) {
        ADD('m', name, 0, 0, 0, 0, 0, 0);  /* a signature that no file has */
        return;
    }
    if (!inode_of_exe) {
        device_of_exe = status.st_dev;
        inode_of_exe = status.st_ino;
    } else if (status.st_dev == device_of_exe && status.st_ino == inode_of_exe) {
        observer_lose("the program that the dynamic loader runs is unknown");  /* `ld.so PROGRAM` */
    }
    ADD('m', name, (long)status.st_dev, (long)status.st_ino, status.st_mode, status.st_size,
        status.st_mtim.tv_sec * 1000000000L + status.st_mtim.tv_nsec,
        status.st_ctim.tv_sec * 1000000000L + status.st_ctim.tv_nsec);
}

static int is_loaded(const struct dl_phdr_info *object, const ElfW(Phdr) *inner)
{
    int at;

    for (at = 0; at < object->dlpi_phnum; at++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[at];
        if (part->p_type == PT_LOAD && inner->p_vaddr - part->p_vaddr < part->p_filesz)
            return 1;
    }
    return 0;
}

/* Whether a note says that an object was compiled by Go, whose programs make system calls past the C library. */
static int is_of_go(const struct dl_phdr_info *object)
{
    static const char name[] = "\0\0\0Go\0"; /* the end of the note's type, and its name */
    int at;

    for (at = 0; at < object->dlpi_phnum; at++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[at];
        if (part->p_type == PT_NOTE && is_loaded(object, part)
            && memmem((const char *)(object->dlpi_addr + part->p_vaddr), part->p_memsz, name, sizeof name))
            return 1;
    }
    return 0;
}

static int visit_object(struct dl_phdr_info *object, size_t size, void *context)
{
    (void)size;
    (void)context;
    if (is_of_go(object))
        observer_lose("system calls may bypass the C library");
    /* Skips the program, whose name is empty, the vDSO, whose name has no slash, and the observer. */
    if (object->dlpi_name && strchr(object->dlpi_name, '/') && object->dlpi_addr != (uintptr_t)&__ehdr_start)
        add_object(object->dlpi_name, object->dlpi_name);
    return 0;
}

/* Call this without the log's lock, since it takes the loader's lock, which the loader holds while it runs
   constructors. These may call wrappers that wait for the log's lock. */
void observer_objects(void)
{
    /* Not in a forked child: a thread of its parent may have held the loader's lock, which then is never released. */
    if (raw_getpid() == observer_first_pid)
        dl_iterate_phdr(visit_object, NULL);
}

void observer_loads(void)
{
    may_have_more = 1;
}

void observer_new_objects(void)
{
    if (may_have_more)
        observer_objects();
}

static void at_exit(int status, void *context)
{
    (void)context;
    observer_objects();
    observer_end(status);
}

/* Uses on_exit instead of a destructor, since it gets the exit status. It is registered before the loader's own
   handler, and therefore runs after the destructors of all objects. */
__attribute__((constructor)) static void start(int count, char **arguments)
{
    static char program[PATH_MAX];
    int kept = errno, at;

    if (value_of("LD_AUDIT="))
        observer_lose("libraries of LD_AUDIT are loaded, which cannot be observed");
    for (at = 0; at < count; at++)
        observer_add('A', NO_PATH, arguments[at], 0, NULL);
    if (count > 1) {
        words = arguments[1];
        end_of_words = arguments[count - 1] + strlen(arguments[count - 1]) + 1;
    }
    if (raw_readlink("/proc/self/exe", program, sizeof program - 1) > 0)
        add_object(program, "/proc/self/exe");
    observer_objects();
    observer_note_inputs();
    __register_atfork(observer_before_fork, observer_after_fork, observer_after_fork, NULL);
    on_exit(at_exit, NULL);
    observer_flush();
    errno = kept;
}
