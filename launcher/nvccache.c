/* The executable `nvccache`: starts Python isolated, with the environment exactly as it came.

       PYTHON -IS -X nvccache=AS-STARTED [-X nvccache-interrupts=held] FOLDER/nvccache-python ARGUMENTS...

   A script cannot do that. pip leaves no options on a script's first line, so PYTHONHOME, PYTHONPATH and the
   like would have their say, and a shell in between adds PWD and more to what nvcc gets.

   FOLDER is where this file really lies, links resolved. PYTHON is `python3` in FOLDER if that is a virtual
   environment's, wherever it was moved; else the one whose path the installer wrote into the first lines of
   nvccache-python; else `python3` in FOLDER. AS-STARTED is the path that was executed, as a script would be
   told it: under the name `nvcc` this is a masquerade.

   Where none of them can be started, the compiler is: the one that the call names, or an nvcc further on PATH.
   So it is where Python starts and cannot load nvccache: nvccache-python then executes this program once more,
   with the reason in FAULT. What stops Python before that script runs leaves nobody to do so. Where it might
   happen, Python is tried first, and SIGINT is held until the script can end by it as nvcc would. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCRIPT "nvccache-python"
#define ROOM (PATH_MAX + 64)
/* These four are real_nvcc.py's. */
#define SHIM_MARK "# The nvcc shim of nvccache."
#define MARK_WITHIN 8192
#define TRIED "_NVCCACHE_TRIED"
#define NESTED 3
/* These two are nvccache-python's. */
#define FAULT "_NVCCACHE_FAULT"
#define LAST_WORDS "sys.exit(main())\n"

/* The directory of this executable, without a slash at its end; false if it cannot be told. */
static int find_folder(const char *started, char *folder)
{
    char *slash;

    if (!realpath("/proc/self/exe", folder) && !realpath(started, folder))
        return 0;
    slash = strrchr(folder, '/');
    if (!slash)
        return 0;
    *slash = '\0';
    return 1;
}

static int exists_in(const char *folder, const char *name)
{
    char path[ROOM];

    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && access(path, F_OK) == 0;
}

/* Keep the word that `text` begins with. Quotation marks surround it where it holds blanks. */
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

/* The interpreter that the script's first lines name, or NULL. Installers write one of

       #!/path/python                      perhaps with options; the path may hold blanks all the same

       #!/bin/sh                           where the path has blanks or is long
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
    return access(first + 2, X_OK) == 0 ? first + 2 : first_word(first + 2);
}

/* Whether the script can be read to its end: one that was cut off might do nothing, and call that success. */
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

/* What a line of pyvenv.cfg gives this name, or NULL. */
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

/* Where an interpreter's library should be: beside `home`, in a directory of this name. */
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

/* Whether there is what Python loads before it runs a line of anybody's. */
static int has_library(const char *python)
{
    static const char *const folders[] = {"lib", "lib64"}, *const modules[] = {"__init__", "aliases", "utf_8"};
    char home[PATH_MAX], name[NAME_MAX], path[ROOM + NAME_MAX];

    find_library(python, home, name);
    for (size_t folder = 0; *home && *name && folder < 2; folder++) {
        size_t found = 0;

        for (; found < 3; found++) {
            snprintf(path, sizeof path, "%s/../%s/%s/encodings/%s.py", home, folders[folder], name, modules[found]);
            if (access(path, R_OK) != 0)
                break;
        }
        if (found == 3)
            return 1;
    }
    return 0;
}

static int has_room(void)
{
    static const struct {
        int resource;
        rlim_t enough;
    } needs[] = {{RLIMIT_AS, 1 << 30}, {RLIMIT_DATA, 1 << 30}, {RLIMIT_NOFILE, 64}};
    struct rlimit limit;

    for (size_t index = 0; index < sizeof needs / sizeof *needs; index++)
        if (getrlimit(needs[index].resource, &limit) == 0 && limit.rlim_cur < needs[index].enough)
            return 0;
    return 1;
}

/* Whether the interpreter runs a line of Python; nothing that it says is seen. */
static int runs(const char *python)
{
    int ends[2], null, said;
    char answer;
    pid_t child;

    if (pipe(ends) != 0)
        return 0;
    child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 2);
        execl(python, python, "-ISc", "print(1)", (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    said = child > 0 && read(ends[0], &answer, 1) == 1;
    close(ends[0]);
    waitpid(child, NULL, 0);
    return said;
}

/* Hold SIGINT back, or let it through again; whether it was the other way before. */
static int hold_interrupts(int how)
{
    sigset_t interrupt, before;

    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    return sigprocmask(how, &interrupt, &before) == 0 && !sigismember(&before, SIGINT);
}

/* Become the interpreter; returns only if it cannot be started. */
static void start(const char *python, const char *script, const char *started, int argc, char **argv)
{
    const char *no_cache = getenv("PYTHONDONTWRITEBYTECODE"); /* -I ignores it */
    char option[] = "-IS\0";
    char **words = calloc((size_t)argc + 8, sizeof *words);
    size_t length = strlen("nvccache=") + strlen(started) + 1;
    char *name = malloc(length);
    int count = 0, is_held;

    if (!words || !name || !is_whole(script) || access(python, X_OK) != 0)
        return;
    if (!(strchr(python, '/') && has_library(python) && has_room()) && !runs(python))
        return;
    snprintf(name, length, "nvccache=%s", started);
    words[count++] = (char *)python;
    if (no_cache && *no_cache)
        strcat(option, "B");
    words[count++] = option;
    words[count++] = "-X";
    words[count++] = name;
    is_held = hold_interrupts(SIG_BLOCK);
    if (is_held) {
        words[count++] = "-X";
        words[count++] = "nvccache-interrupts=held";
    }
    words[count++] = (char *)script;
    for (int index = 1; index < argc; index++)
        words[count++] = argv[index];
    execv(python, words);
    if (is_held)
        hold_interrupts(SIG_UNBLOCK);
    free(words);
    free(name);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Whether a program is nvccache or a shim of it, as real_nvcc.py tells it. */
static int is_ours(const char *path)
{
    static char real[PATH_MAX], self[PATH_MAX], first[MARK_WITHIN];
    ssize_t length;
    int descriptor;

    if (!realpath(path, real))
        return 0;
    if (strcmp(name_of(real), "nvccache") == 0 || strcmp(name_of(real), SCRIPT) == 0)
        return 1;
    if (realpath("/proc/self/exe", self) && strcmp(real, self) == 0)
        return 1;
    descriptor = open(real, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0)
        return 0;
    length = read(descriptor, first, sizeof first);
    close(descriptor);
    return length > 0 && memmem(first, (size_t)length, SHIM_MARK, strlen(SHIM_MARK)) != NULL;
}

/* Note that a program was started on the way to this one; false if it was `most` times already. */
static int note_tried(const char *path, int most)
{
    const char *tried = getenv(TRIED);
    size_t length = strlen(path), before = tried ? strlen(tried) + 1 : 0;
    char *noted = malloc(before + length + 1);

    if (!noted)
        return 0;
    for (const char *entry = tried; entry; entry = strchr(entry, ':')) {
        entry += *entry == ':';
        if (strncmp(entry, path, length) == 0 && (entry[length] == ':' || !entry[length]))
            most--;
    }
    sprintf(noted, "%s%s%s", tried ? tried : "", tried ? ":" : "", path);
    return most > 0 && setenv(TRIED, noted, 1) == 0;
}

/* Become a compiler, unless it is none or has led here; returns if it cannot be started. */
static void become(const char *path, char **words, int most)
{
    char full[2 * ROOM], here[PATH_MAX] = "";
    struct stat status;

    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || access(path, X_OK) != 0 || is_ours(path))
        return;
    if (*path != '/' && !getcwd(here, sizeof here))
        return;
    if (snprintf(full, sizeof full, "%s%s%s", here, *here ? "/" : "", path) >= (int)sizeof full)
        return;
    if (!note_tried(full, most))
        return;
    words[0] = (char *)path;
    execvp(path, words); /* which gives a script without #! to sh */
}

static void become_from_path(const char *name, char **words)
{
    const char *path = getenv("PATH");
    char candidate[ROOM];

    for (const char *entry = path ? path : "/bin:/usr/bin"; entry; entry = strchr(entry, ':')) {
        int length;

        entry += *entry == ':';
        length = (int)strcspn(entry, ":");
        if (length > PATH_MAX)
            continue;
        if (snprintf(candidate, sizeof candidate, "%.*s/%s", length ? length : 1, length ? entry : ".", name) <
            (int)sizeof candidate)
            become(candidate, words, 1);
    }
}

static int is_name_of_compiler(const char *word)
{
    static const char *const parts[] = {"nvc", "cc", "c++", "g++", "clang", "icpx"};

    for (size_t index = 0; *word != '-' && index < sizeof parts / sizeof *parts; index++)
        if (strstr(word, parts[index]))
            return 1;
    return 0;
}

/* Run the compiler of this call without us: no build may fail because Python was removed, or is somebody
   else's. The settings file is not read here; what NVCCACHE_NVCC names counts. */
static void run_compiler(const char *started, char **argv)
{
    const char *own = name_of(started), *named;

    if (strncmp(own, "nvcc", 4) == 0 && strncmp(own, "nvccache", 8) != 0) {
        named = getenv("NVCCACHE_NVCC");
        if (!named || !*named)
            named = "nvcc";
    } else {
        do
            named = *++argv;
        while (named && strcmp(name_of(named), "nvccache") == 0);
        if (!named || *named == '-' || !(strchr(named, '/') || is_name_of_compiler(named)))
            return;
    }
    if (strchr(named, '/') && !is_ours(named)) {
        become(named, argv, NESTED); /* this one or nothing */
        return;
    }
    become_from_path(strcmp(name_of(named), "nvccache") == 0 ? "nvcc" : name_of(named), argv);
}

int main(int argc, char **argv)
{
    const char *started = (const char *)getauxval(AT_EXECFN);
    char folder[PATH_MAX] = "", script[ROOM], beside[ROOM];
    char *named, *fault = getenv(FAULT);
    int is_environment;

    if (!started)
        started = argc > 0 ? argv[0] : "nvccache";
    if (fault && argc > 0) {
        fault = strdup(fault);
        unsetenv(FAULT);
        run_compiler(started, argv);
        fprintf(stderr, "nvccache: %s\n", fault ? fault : "cannot be loaded");
        return 127;
    }
    if (!find_folder(started, folder)) {
        fprintf(stderr, "nvccache: cannot find out where `%s` is\n", started);
        return 127;
    }
    snprintf(script, sizeof script, "%s/" SCRIPT, folder);
    snprintf(beside, sizeof beside, "%s/python3", folder);
    is_environment = exists_in(folder, "../pyvenv.cfg");
    if (is_environment)
        start(beside, script, started, argc, argv);
    named = named_interpreter(script);
    if (named && strcmp(named, beside) != 0)
        start(named, script, started, argc, argv);
    if (!is_environment)
        start(beside, script, started, argc, argv);
    if (argc > 0)
        run_compiler(started, argv);
    fprintf(stderr, "nvccache: no Python to start: neither `%s` nor the one that `%s` names\n", beside, script);
    return 127;
}
