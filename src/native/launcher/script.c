/* Runs an nvcc that is a script. The script runs in each call. When it executes the compiled nvcc, the library next to
   this program (../redirect/redirect.c) executes nvccache with that nvcc instead, which answers and counts the call.

   If the script contains LD_PRELOAD, or if nothing can be preloaded into its interpreter, because that is statically
   linked or gets additional privileges, Python counts the call and runs the script without the library. */

#include "launcher.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PRELOAD "LD_PRELOAD"
#define LIBRARY "nvccache-redirect.so" /* next to this program */

extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden"))); /* of this program */

/* Remove the library from LD_PRELOAD; returns whether it was there. */
static int stop_preload(void)
{
    char *value = getenv(PRELOAD), *name = value ? strstr(value, "/" LIBRARY) : NULL, *start = name;

    if (!name)
        return 0;
    while (start > value && *start != ':')
        start--;
    name += sizeof "/" LIBRARY - 1;
    if (start == value && *start != ':' && !*name)
        unsetenv(PRELOAD);
    else
        memmove(start, name, strlen(name) + 1);
    return 1;
}

static int start_preload(const char *folder)
{
    const char *users = getenv(PRELOAD); /* they come first, or AddressSanitizer refuses to start */
    char library[ROOM], *value;

    return snprintf(library, sizeof library, "%s/" LIBRARY, folder) < ROOM && !strpbrk(library, " \t\n:$") &&
           access(library, R_OK) == 0 && asprintf(&value, "%s%s%s", users ? users : "", users ? ":" : "", library) > 0 &&
           setenv(PRELOAD, value, 1) == 0;
}

/* Whether the dynamic loader would preload the library into a program. */
static int is_preloadable(const char *path)
{
    int file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), has_loader = 0;
    Elf64_Ehdr head;
    Elf64_Phdr part;
    struct stat status;

    if (file < 0)
        return 0;
    if (fstat(file, &status) == 0 && !(status.st_mode & (S_ISUID | S_ISGID)) &&
        fgetxattr(file, "security.capability", NULL, 0) < 0 && read(file, &head, sizeof head) == sizeof head &&
        memcmp(head.e_ident, __ehdr_start.e_ident, EI_VERSION) == 0 && head.e_machine == __ehdr_start.e_machine)
        for (int index = 0; index < head.e_phnum && !has_loader; index++)
            has_loader = pread(file, &part, sizeof part, (off_t)(head.e_phoff + index * sizeof part)) == sizeof part &&
                         part.p_type == PT_INTERP;
    close(file);
    return has_loader;
}

/* Read the start of a file; fails if it is a compiled program. */
static int read_script(const char *path, char *text, size_t size)
{
    return read_file(path, text, size) >= 0 && strncmp(text, ELFMAG, SELFMAG) != 0;
}

/* Whether the library can be preloaded into a script's interpreter and, if that is `env`, into what `env` starts. */
static int has_preloadable_interpreter(char *text)
{
    char *program = text + 2, *word, found[ROOM];

    if (strncmp(text, "#!", 2) != 0)
        return is_preloadable("/bin/sh");
    text[strcspn(text, "\n")] = '\0';
    program += strspn(program, " \t");
    word = program + strcspn(program, " \t");
    if (*word)
        *word++ = '\0';
    word += strspn(word, " \t");
    word[strcspn(word, " \t")] = '\0';
    if (strcmp(name_of(program), "env") == 0 && *word && *word != '-')
        return is_preloadable(program) && find_on_path(word, found) && is_preloadable(found);
    return is_preloadable(program);
}

/* If a script that nvccache runs has started this process, remove the library from its environment, and let the call
   name the compiled nvcc. Returns whether this is so. */
int leave_script(struct call *call)
{
    static char found[ROOM], text[SELFMAG + 1];
    char folder[PATH_MAX], *started, **words, **argv;
    size_t count;

    if (!stop_preload())
        return 0;
    words = find_compiler(call, found);
    if (!words || read_script(found, text, sizeof text) || !find_folder(call->started, folder) ||
        asprintf(&started, "%s/nvccache", folder) < 0)
        return 1;
    count = (size_t)(call->argv + call->argc - words);
    argv = calloc(count + 2, sizeof *argv);
    if (!argv)
        return 1;
    argv[1] = found; /* the first is not used */
    memcpy(argv + 2, words + 1, count * sizeof *argv); /* with the null at the end */
    unsetenv(TRIED); /* it would mean that a tool makes this call */
    call->started = started, call->argv = argv, call->argc = (int)count + 1;
    return 1;
}

void run_nvcc_script(const struct call *call, const char *folder, int is_within)
{
    static char text[1 << 16];
    const char *disabled = getenv("NVCCACHE_DISABLE");
    char found[ROOM], **words;

    if (getauxval(AT_SECURE) || (disabled && *disabled) || (getenv(TRIED) && !is_within))
        return;
    words = find_compiler(call, found);
    if (!words || !(is_masquerade(call) || strstr(name_of(*words), "nvcc")) || !read_script(found, text, sizeof text) ||
        strstr(text, PRELOAD) || !has_preloadable_interpreter(text) || !start_preload(folder))
        return;
    become(found, words);
    stop_preload();
}
