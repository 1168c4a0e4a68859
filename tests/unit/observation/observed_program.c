/* A program that does one thing to be observed: `observed WHAT ARGUMENTS...`. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#ifdef GO
/* What tells a program of Go, where that is linked with the C library. */
__attribute__((section(".note.go.buildid"), aligned(4), used)) static const struct {
    unsigned name_size, size, type;
    char name[4], text[4];
} note = {4, 4, 4, "Go", "id"};
#endif

#ifdef WITHOUT_DLSYM
/* Before glibc 2.34 dlsym may allocate, and a program's allocator may call what the observer wraps. */
void *dlsym(void *restrict handle, const char *restrict name)
{
    abort();
}

void *dlvsym(void *restrict handle, const char *restrict name, const char *restrict version)
{
    abort();
}
#endif

#ifndef STATIC
/* As a program has it that was linked before glibc 2.17: new ones find no function of this name. */
#if defined(__x86_64__)
__asm__(".symver old_getenv,__secure_getenv@GLIBC_2.2.5");
#else
__asm__(".symver old_getenv,__secure_getenv@GLIBC_2.17");
#endif
char *old_getenv(const char *name);
#endif

static void read_file(const char *path)
{
    int descriptor = open(path, O_RDONLY);

    if (descriptor >= 0)
        close(descriptor);
}

static int wait_for(pid_t child)
{
    int status = 1;

    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static int by_vfork(char **words)
{
    pid_t child = vfork();

    if (!child) {
        execvp(words[0], words);
        _exit(127);
    }
    read_file("after");
    return wait_for(child);
}

static int by_spawn(char **words)
{
    pid_t child;

    return posix_spawnp(&child, words[0], NULL, NULL, words, environ) ? 127 : wait_for(child);
}

static void *read_many(void *number)
{
    char name[64];
    int at;

    for (at = 0; at < 500; at++) {
        snprintf(name, sizeof name, "thread-%d-%d", (int)(size_t)number, at);
        read_file(name);
    }
    return NULL;
}

static int by_threads(void)
{
    pthread_t threads[8];
    size_t at;

    for (at = 0; at < 8; at++)
        pthread_create(&threads[at], NULL, read_many, (void *)at);
    for (at = 0; at < 8; at++)
        pthread_join(threads[at], NULL);
    return 0;
}

static int by_forks(void)
{
    int at, failed = 0;

    for (at = 0; at < 200; at++) {
        char name[32];
        pid_t child;
        snprintf(name, sizeof name, "fork-%d", at);
        child = fork();
        if (!child) {
            read_file(name);
            at % 2 ? _exit(0) : exit(0);
        }
        failed |= wait_for(child);
    }
    return failed;
}

static int without_descriptors(void)
{
    int at;

    for (at = 0; at < 256; at++)
        close(at);
    for (at = 0; at < 256; at++)
        open("/dev/null", O_RDONLY);
    read_file("after");
    close(0);  /* then the log gets this number */
    return 0;
}

static void on_alarm(int number)
{
    (void)number;
    read_file("in-handler");
}

static int with_signals(void)
{
    struct itimerval often = {{0, 20}, {0, 20}};
    char name[32];
    int at;

    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &often, NULL);
    for (at = 0; at < 5000; at++) {
        snprintf(name, sizeof name, "name-%d", at);
        read_file(name);
    }
    return 0;
}

static int elsewhere(void)
{
    int here = open(".", O_RDONLY | O_DIRECTORY), sub;

    read_file("before");
    mkdir("sub", 0777);
    sub = open("sub", O_RDONLY | O_DIRECTORY);
    faccessat(sub, "d", R_OK, 0);
    if (chdir("sub"))
        return 1;
    read_file("by-chdir");
    if (fchdir(here))
        return 1;
    read_file("by-fchdir");
    return 0;
}

static int keeps_errno(void)
{
    errno = 77;
    getenv("HOME");
    time(NULL);
    clock();
    if (errno != 77)
        return 1;
    if (open("nowhere", O_RDONLY) != -1 || errno != ENOENT || access("nowhere", R_OK) != -1 || errno != ENOENT)
        return 2;
    if (open(NULL, O_RDONLY) != -1 || errno != EFAULT || stat((char *)1, (struct stat *)1) != -1 || errno != EFAULT)
        return 3;
    return syscall(SYS_openat, AT_FDCWD, "nowhere", O_RDONLY) != -1 || errno != ENOENT ? 4 : 0;
}

static int fill_the_log(void)
{
    char name[3000];
    int at;

    memset(name, 'x', sizeof name);
    for (at = 0; at < 30000; at++) {
        snprintf(name, sizeof name, "%d", at);
        name[strlen(name)] = '/';
        name[sizeof name - 1] = '\0';
        read_file(name);
    }
    return 0;
}

static int end(const char *how)
{
    if (!strcmp(how, "exit"))
        exit(7);
    if (!strcmp(how, "_exit"))
        _exit(7);
    if (!strcmp(how, "quick_exit"))
        quick_exit(7);
    if (!strcmp(how, "exit_group"))
        syscall(SYS_exit_group, 7);
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "kill"))
        kill(getpid(), SIGKILL);
    return 7;
}

static int load(const char *name, const char *how)
{
    void *library = dlopen(name, RTLD_NOW);

    if (!library)
        return 1;
    if (how)
        return end(how);
    dlclose(library);
    return 0;
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";

    if (!strcmp(what, "vfork"))
        return by_vfork(words + 2);
    if (!strcmp(what, "spawn"))
        return by_spawn(words + 2);
    if (!strcmp(what, "system"))
        return system(words[2]) || pclose(popen(words[2], "r"));
    if (!strcmp(what, "exec"))
        return execv(words[2], words + 2);
    if (!strcmp(what, "threads"))
        return by_threads();
    if (!strcmp(what, "forks"))
        return by_forks();
    if (!strcmp(what, "descriptors"))
        return without_descriptors();
    if (!strcmp(what, "signals"))
        return with_signals();
    if (!strcmp(what, "elsewhere"))
        return elsewhere();
    if (!strcmp(what, "errno"))
        return keeps_errno();
    if (!strcmp(what, "load"))
        return load(words[2], words[3]);
    if (!strcmp(what, "fill"))
        return fill_the_log();
    if (!strcmp(what, "end"))
        return end(words[2]);
#ifndef STATIC
    if (!strcmp(what, "old"))
        return !old_getenv(words[2]);
#endif
    if (!strcmp(what, "clock")) {
        const char *mark = strpbrk(words[2], "=@");
        sysconf(_SC_PAGESIZE);
        read_file(mark ? mark + 1 : words[2]);
        return time(NULL) >> 40 != 0;  /* an address in place of seconds */
    }
    return 0;
}
