/* The executable `nvccache`: starts Python isolated, with the environment exactly as it came.

       PYTHON -IS -X nvccache=AS-STARTED FOLDER/nvccache-python ARGUMENTS...

   A script cannot do that. pip leaves no options on a script's first line, so PYTHONHOME, PYTHONPATH and the
   like would have their say, and a shell in between adds PWD and more to what nvcc gets.

   FOLDER is where this file really lies, links resolved. PYTHON is `python3` in FOLDER if that is a virtual
   environment's, wherever it was moved; else the one whose path the installer wrote into the first lines of
   nvccache-python; else `python3` in FOLDER. AS-STARTED is the path that was executed, as a script would be
   told it: under the name `nvcc` this is a masquerade. */

#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define SCRIPT "nvccache-python"
#define ROOM (PATH_MAX + 64)

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

    if (!words || !name)
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

/* Whether this is a call `nvccache PATH ARGUMENTS...`: no build may fail because Python was removed. */
static int is_compiler_named(const char *started, int argc, char **argv)
{
    const char *slash = strrchr(started, '/');

    return strcmp(slash ? slash + 1 : started, "nvccache") == 0 && argc > 1 && argv[1][0] != '-' &&
           strchr(argv[1], '/');
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
    if (is_compiler_named(started, argc, argv))
        execv(argv[1], argv + 1);
    fprintf(stderr, "nvccache: no Python to start: neither `%s` nor the one that `%s` names\n", beside, script);
    return 127;
}
