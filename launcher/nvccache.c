/* The executable `nvccache`: starts Python isolated, with the environment exactly as it came.

       PYTHON -IS -X nvccache=AS-STARTED FOLDER/nvccache-python ARGUMENTS...

   A script cannot do that. pip leaves no options on a script's first line, so PYTHONHOME, PYTHONPATH and the
   like would have their say, and a shell in between adds PWD and more to what nvcc gets.

   FOLDER is where this file really lies, links resolved. PYTHON is `python3` in FOLDER if that is a virtual
   environment's, wherever it was moved; else the one whose path the installer wrote into the first lines of
   nvccache-python; else `python3` in FOLDER. AS-STARTED is the path that was executed, as a script would be
   told it: under the name `nvcc` this is a masquerade.

   Where none of them can be started, the compiler is: the one that the call names, or an nvcc further on PATH. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRIPT "nvccache-python"
#define ROOM (PATH_MAX + 64)
/* These four are real_nvcc.py's. */
#define SHIM_MARK "# The nvcc shim of nvccache."
#define MARK_WITHIN 8192
#define TRIED "_NVCCACHE_TRIED"
#define NESTED 3

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

/* Become the interpreter; returns only if it cannot be started. */
static void start(const char *python, const char *script, const char *started, int argc, char **argv)
{
    const char *no_cache = getenv("PYTHONDONTWRITEBYTECODE"); /* -I ignores it */
    char option[] = "-IS\0";
    char **words = calloc((size_t)argc + 6, sizeof *words);
    size_t length = strlen("nvccache=") + strlen(started) + 1;
    char *name = malloc(length);
    int count = 0;

    if (!words || !name || access(script, R_OK) != 0)
        return;
    snprintf(name, length, "nvccache=%s", started);
    words[count++] = (char *)python;
    if (no_cache && *no_cache)
        strcat(option, "B");
    words[count++] = option;
    words[count++] = "-X";
    words[count++] = name;
    words[count++] = (char *)script;
    for (int index = 1; index < argc; index++)
        words[count++] = argv[index];
    execv(python, words);
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
    char *named;

    if (!started)
        started = argc > 0 ? argv[0] : "nvccache";
    if (!find_folder(started, folder)) {
        fprintf(stderr, "nvccache: cannot find out where `%s` is\n", started);
        return 127;
    }
    snprintf(script, sizeof script, "%s/" SCRIPT, folder);
    snprintf(beside, sizeof beside, "%s/python3", folder);
    if (exists_in(folder, "../pyvenv.cfg"))
        start(beside, script, started, argc, argv);
    named = named_interpreter(script);
    if (named)
        start(named, script, started, argc, argv);
    start(beside, script, started, argc, argv);
    if (argc > 0)
        run_compiler(started, argv);
    fprintf(stderr, "nvccache: no Python to start: neither `%s` nor the one that `%s` names\n", beside, script);
    return 127;
}
