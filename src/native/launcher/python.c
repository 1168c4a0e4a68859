/* Finds and starts Python.

       PYTHON -IS -X nvccache=AS-STARTED [-X nvccache-replay=NAME] [-X nvccache-interrupts=held]
              FOLDER/nvccache-python ARGUMENTS...

   FOLDER is the directory of this executable, with links resolved. PYTHON is `python3` in FOLDER if FOLDER belongs to a
   virtual environment, even to one that was moved. Otherwise, it is the interpreter whose path the installer wrote into
   the first lines of nvccache-python or, failing that, `python3` in FOLDER. AS-STARTED is the path that was executed;
   if its name is `nvcc`, nvccache stands in for nvcc. NAME is the name of the record that was looked for.

   The caller's LD_LIBRARY_PATH, LD_PRELOAD and LD_AUDIT are meant for the tools. A different libz or libpython in them
   (from MATLAB, or from the modules of a cluster) can keep Python from starting. Therefore, these variables are
   renamed, and nvccache-python restores their names. If Python may need LD_LIBRARY_PATH, a test shows whether it starts
   without.

   If Python stopped before that script runs, no compiler would run. If that might happen, Python is tested first.
   SIGINT is blocked until the script can handle it, so that ^C ends the call in the same way as nvcc. */

#include "launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELD "_NVCCACHE_HELD_" /* as in nvccache-python */
#define LAST_WORDS "sys.exit(main())\n" /* the end of nvccache-python */

extern char **environ;

static void hold_loader_variables(void)
{
    static const char *const names[] = {"LD_LIBRARY_PATH=", "LD_PRELOAD=", "LD_AUDIT="};
    char *held;

    for (char **entry = environ; *entry; entry++)
        for (size_t index = 0; index < sizeof names / sizeof *names; index++)
            if (strncmp(*entry, names[index], strlen(names[index])) == 0 && asprintf(&held, HELD "%s", *entry) > 0)
                *entry = held;
}

void release_loader_variables(void)
{
    for (char **entry = environ; *entry; entry++)
        if (strncmp(*entry, HELD, sizeof HELD - 1) == 0)
            *entry += sizeof HELD - 1;
}

/* Find the directory of this executable, without a trailing slash; fails if it is unknown. */
int find_folder(const char *started, char *folder)
{
    if (!realpath("/proc/self/exe", folder) && !realpath(started, folder))
        return 0;
    *strrchr(folder, '/') = '\0';
    return 1;
}

static int exists_in(const char *folder, const char *name)
{
    char path[ROOM];

    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) == 0;
}

/* End `text` after its first word, which is in quotation marks if it contains blanks; returns the word. */
static char *first_word(char *text)
{
    char mark = *text;

    if (mark != '"' && mark != '\'')
        mark = ' ';
    else
        text++;
    text[strcspn(text, (char[]){mark, '\0'})] = '\0';
    return text;
}

/* The interpreter that the first lines of the script name, or NULL. Installers write one of

       #!/path/python                      perhaps with options; even here the path may have blanks

       #!/bin/sh                           if the path has blanks or is long
       '''exec' "/path/python" "$0" "$@"
*/
static char *named_interpreter(const char *script)
{
    static char first[ROOM], second[ROOM];
    static const char by_shell[] = "'''exec' ";
    char *lines[] = {first, second};
    FILE *stream = fopen(script, "re");
    int complete = 0;

    if (!stream)
        return NULL;
    while (complete < 2 && fgets(lines[complete], ROOM, stream)) {
        lines[complete][strcspn(lines[complete], "\r\n")] = '\0';
        complete++;
    }
    fclose(stream);
    if (complete < 2 || strncmp(first, "#!", 2) != 0)
        return NULL;
    if (strncmp(second, by_shell, sizeof by_shell - 1) == 0)
        return first_word(second + sizeof by_shell - 1);
    return faccessat(AT_FDCWD, first + 2, X_OK, AT_EACCESS) == 0 ? first + 2 : first_word(first + 2);
}

/* Whether the script is complete. A truncated script might do nothing and succeed. */
static int is_whole(const char *script)
{
    char last[sizeof LAST_WORDS - 1];
    int descriptor = open(script, O_RDONLY | O_CLOEXEC), is_whole;

    if (descriptor < 0)
        return 0;
    is_whole = lseek(descriptor, -(off_t)sizeof last, SEEK_END) > 0 &&
               read(descriptor, last, sizeof last) == (ssize_t)sizeof last &&
               memcmp(last, LAST_WORDS, sizeof last) == 0;
    close(descriptor);
    return is_whole;
}

/* The value that a line of pyvenv.cfg gives to `name`, or NULL. */
static char *value_of(const char *name, char *line)
{
    size_t length = strlen(name);

    if (strncmp(line, name, length) != 0)
        return NULL;
    line += length + strspn(line + length, " \t");
    if (*line++ != '=')
        return NULL;
    line += strspn(line, " \t");
    line[strcspn(line, "\r\n")] = '\0';
    return line;
}

/* Find where an interpreter's standard library should be: in ../lib/NAME, as seen from the directory `home`. */
static void find_library(const char *python, char *home, char *name)
{
    char path[ROOM], line[ROOM];
    int length = (int)(strrchr(python, '/') - python);
    char *value, *version;
    FILE *stream;

    *home = *name = '\0';
    snprintf(path, sizeof path, "%.*s/../pyvenv.cfg", length, python);
    stream = fopen(path, "re");
    while (stream && fgets(line, sizeof line, stream)) {
        value = value_of("home", line);
        if (value)
            snprintf(home, PATH_MAX, "%s", value);
        value = value_of("version", line);
        if (!value)
            value = value_of("version_info", line);
        if (value && strncmp(value, "3.", 2) == 0)
            sprintf(name, "python3.%d", atoi(value + 2));
    }
    if (stream)
        fclose(stream);
    else if (realpath(python, home)) {
        version = strstr(strrchr(home, '/'), "python3.");
        if (version)
            snprintf(name, NAME_MAX, "%s", version);
        *strrchr(home, '/') = '\0';
    }
}

/* Whether those modules exist that Python loads before it runs any script. */
static int has_library(const char *python)
{
    static const char *const folders[] = {"lib", "lib64"}, *const modules[] = {"__init__", "aliases", "utf_8"};
    char home[PATH_MAX], name[NAME_MAX], path[ROOM + NAME_MAX];

    find_library(python, home, name);
    for (size_t folder = 0; *home && *name && folder < 2; folder++) {
        size_t found = 0;

        for (; found < 3; found++) {
            snprintf(path, sizeof path, "%s/../%s/%s/encodings/%s.py", home, folders[folder], name, modules[found]);
            if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0)
                break;
        }
        if (found == 3)
            return 1;
    }
    return 0;
}

/* Whether LD_LIBRARY_PATH leads to a library with which an interpreter may be linked. */
static int may_find_library(const char *python)
{
    static const char *const others[] = {"libz.so.1", "libexpat.so.1", "libcrypt.so.1", "libcrypt.so.2", "libintl.so.8", 0};
    const char *path = getenv("LD_LIBRARY_PATH");
    char home[PATH_MAX], name[NAME_MAX], own[NAME_MAX + 16], directory[ROOM];

    find_library(python, home, name);
    snprintf(own, sizeof own, "lib%s.so.1.0", name);
    for (const char *entry = path; entry; entry = strpbrk(entry, ":;")) {
        entry += *entry == ':' || *entry == ';';
        snprintf(directory, sizeof directory, "%.*s", (int)strcspn(entry, ":;"), entry);
        if (exists_in(directory, own))
            return 1;
        for (const char *const *other = others; *other; other++)
            if (exists_in(directory, *other))
                return 1;
    }
    return 0;
}

/* Whether the memory of this process is unlimited, so that the interpreter cannot fail for lack of it. */
static int has_room(void)
{
    struct rlimit room, data;

    return getrlimit(RLIMIT_AS, &room) == 0 && room.rlim_cur == RLIM_INFINITY && getrlimit(RLIMIT_DATA, &data) == 0 &&
           data.rlim_cur == RLIM_INFINITY;
}

/* Whether the interpreter runs a line of Python; its messages are discarded. */
static int runs(const char *python)
{
    int null, status;
    pid_t child = fork();

    if (child == 0) {
        null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execl(python, python, "-ISc", "raise SystemExit(7)", (char *)NULL);
        _exit(1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

/* Block or unblock SIGINT; returns whether it was unblocked before. */
static int hold_interrupts(int how)
{
    sigset_t interrupt, before;

    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    return sigprocmask(how, &interrupt, &before) == 0 && !sigismember(&before, SIGINT);
}

/* Write the interpreter and its options to `argv`, followed by NULL. */
static void add_options(char **argv, const char *python, const struct call *call, int is_held)
{
    const char *no_cache = getenv("PYTHONDONTWRITEBYTECODE"); /* Python ignores it because of -I */
    static char replay[sizeof "nvccache-replay=" + NAME_ROOM];
    char *name = NULL;

    *argv++ = (char *)python;
    *argv++ = no_cache && *no_cache ? "-ISB" : "-IS";
    if (asprintf(&name, "nvccache=%s", call->started) > 0) {
        *argv++ = "-X";
        *argv++ = name;
    }
    if (*call->name) {
        sprintf(replay, "nvccache-replay=%s", call->name);
        *argv++ = "-X";
        *argv++ = replay;
    }
    if (is_held) {
        *argv++ = "-X";
        *argv++ = "nvccache-interrupts=held";
    }
    *argv = NULL;
}

/* Execute the interpreter; returns only if it cannot be started. */
static void start(const char *python, const char *script, const struct call *call)
{
    char **argv;
    int count = 0, is_held, may_need;

    if (!is_whole(script) || faccessat(AT_FDCWD, python, X_OK, AT_EACCESS) != 0)
        return;
    release_loader_variables(); /* in case another interpreter was tried before */
    may_need = may_find_library(python);
    hold_loader_variables();
    if (may_need && !runs(python))
        release_loader_variables();
    if (!(strchr(python, '/') && has_library(python) && has_room()) && !runs(python))
        return;
    argv = calloc((size_t)call->argc + 10, sizeof *argv);
    if (!argv)
        return;
    is_held = hold_interrupts(SIG_BLOCK);
    add_options(argv, python, call, is_held);
    while (argv[count])
        count++;
    argv[count++] = (char *)script;
    for (int index = 1; index < call->argc; index++)
        argv[count++] = call->argv[index];
    execv(python, argv);
    if (is_held)
        hold_interrupts(SIG_UNBLOCK);
    free(argv);
}

static void start_any(const char *folder, const struct call *call)
{
    char script[ROOM], neighbour[ROOM], *named;
    int is_environment = exists_in(folder, "../pyvenv.cfg");

    snprintf(script, sizeof script, "%s/" SCRIPT, folder);
    snprintf(neighbour, sizeof neighbour, "%s/python3", folder);
    if (is_environment)
        start(neighbour, script, call);
    named = named_interpreter(script);
    if (named && strcmp(named, neighbour) != 0)
        start(named, script, call);
    if (!is_environment)
        start(neighbour, script, call);
}

void start_python(const char *folder, const struct call *call)
{
    start_any(folder, call);
    release_loader_variables();
}
