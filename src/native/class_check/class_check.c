/* Sent with a stage to another machine, where it starts the tool if the processor is of the required class.
 *
 *     class-check CHECK... -- LOADER ARGUMENT...
 *
 * Tools evaluate constant expressions with the functions that the C library chooses for the processor (see
 * records/facts.py). A CHECK is the name of a feature that the processor must have or, after a `-`, must not have.
 *
 * This program is linked statically, since it is sent to machines that may have no other program.
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OTHER_CLASS = 97, CANNOT_RUN = 98 };

static int fail(int status, const char *what)
{
    fprintf(stderr, "nvccache class-check: %s\n", what);
    return status;
}

/* Whether the processor and the kernel have a feature, named as in /proc/cpuinfo; -1 if this is not known. */
static int has(const char *feature)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    if (strcmp(feature, "avx") == 0)
        return __builtin_cpu_supports("avx") != 0;
    if (strcmp(feature, "avx2") == 0)
        return __builtin_cpu_supports("avx2") != 0;
    if (strcmp(feature, "fma") == 0)
        return __builtin_cpu_supports("fma") != 0;
    if (strcmp(feature, "fma4") == 0)
        return __builtin_cpu_supports("fma4") != 0;
    if (strcmp(feature, "sse4_1") == 0)
        return __builtin_cpu_supports("sse4.1") != 0;
#endif
    (void)feature;
    return -1;
}

int main(int count, char **argv)
{
    int check, end;

    for (end = 1; end < count && strcmp(argv[end], "--") != 0; end++)
        ;
    if (end + 1 >= count || end == 1)
        return fail(CANNOT_RUN, "usage: class-check CHECK... -- LOADER WORD...");
    for (check = 1; check < end; check++)
        if (has(argv[check] + (argv[check][0] == '-')) != (argv[check][0] != '-'))
            return fail(OTHER_CLASS, "this machine's processor is of another class");
    execv(argv[end + 1], argv + end + 1);
    return fail(CANNOT_RUN, "the loader cannot be run");
}
