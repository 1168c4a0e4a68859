/* Runs a stage on another machine if its processor is of the same class as that of the requesting one.
 *
 *     class-check [-o FILE -e FILE -r FILE] [-w FILE]... CHECK... -- LOADER ARGUMENT...
 *
 * The tools of a stage fold mathematics by the functions that the C library chooses for the processor, see
 * toolkit/processor.py. A check is the name of a feature that the processor must have, or after a `-`, must not have.
 *
 * It is sent as it is to machines that may have no other program, and is linked statically. -o and -e are files
 * for the two streams of the tool, for launchers that print messages of their own. -r is a file for a report on the
 * result, by which the requester checks whether the result arrived complete:
 *
 *     STATUS
 *     CRC-32 SIZE      of each file of -w, in this order, in hexadecimal and decimal digits
 *     end
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OTHER_CLASS = 97, CANNOT_RUN = 98 };

static int fail(int status, const char *what)
{
    fprintf(stderr, "nvccache class-check: %s\n", what);
    return status;
}

/* Whether the processor and the kernel have a feature, by its name in /proc/cpuinfo; -1 if that is not known. */
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

static int redirect(const char *path, int descriptor)
{
    int opened = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    if (opened < 0 || dup2(opened, descriptor) < 0)
        return 0;
    close(opened);
    return 1;
}

/* A line with checksum and size of a regular file, or a dash for a file to be rejected. */
static void describe(FILE *report, const char *path)
{
    static unsigned char part[1 << 16];
    unsigned long crc = 0xffffffff;
    long long size = 0;
    ssize_t length, at;
    struct stat status;
    int bit, opened = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);

    if (opened < 0 || fstat(opened, &status) != 0 || !S_ISREG(status.st_mode)) {
        fprintf(report, "-\n");
        if (opened >= 0)
            close(opened);
        return;
    }
    while ((length = read(opened, part, sizeof part)) > 0) {
        size += length;
        for (at = 0; at < length; at++)
            for (crc ^= part[at], bit = 0; bit < 8; bit++)
                crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    close(opened);
    if (length < 0)
        fprintf(report, "-\n");
    else
        fprintf(report, "%08lx %lld\n", crc ^ 0xffffffff, size);
}

/* Runs the tool, and reports its result. */
static int run_and_report(char **tool, const char *path, char **options, int count)
{
    pid_t child = fork();
    int status = 0, each;
    FILE *report;

    if (child < 0)
        return fail(CANNOT_RUN, "the loader cannot be run");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(tool[0], tool);
        _exit(fail(CANNOT_RUN, "the loader cannot be run"));
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (!(report = fopen(path, "w")))
        return fail(CANNOT_RUN, "the report cannot be written");
    fprintf(report, "%d\n", status);
    for (each = 1; each < count; each += 2)
        if (strcmp(options[each], "-w") == 0)
            describe(report, options[each + 1]);
    fprintf(report, "end\n");
    return fclose(report) == 0 ? status : fail(CANNOT_RUN, "the report cannot be written");
}

int main(int count, char **argv)
{
    const char *out = NULL, *error = NULL, *report = NULL;
    int checks = 1, end, options;

    for (; checks + 1 < count; checks += 2) {
        if (strcmp(argv[checks], "-o") == 0)
            out = argv[checks + 1];
        else if (strcmp(argv[checks], "-e") == 0)
            error = argv[checks + 1];
        else if (strcmp(argv[checks], "-r") == 0)
            report = argv[checks + 1];
        else if (strcmp(argv[checks], "-w") != 0)
            break;
    }
    options = checks;
    for (end = checks; end < count && strcmp(argv[end], "--") != 0; end++)
        ;
    if (end + 1 >= count || end == checks)
        return fail(CANNOT_RUN, "usage: class-check [-o FILE -e FILE -r FILE] [-w FILE]... CHECK... -- LOADER WORD...");
    for (; checks < end; checks++)
        if (has(argv[checks] + (argv[checks][0] == '-')) != (argv[checks][0] != '-'))
            return fail(OTHER_CLASS, "the processor here is of another class");
    if ((out && !redirect(out, 1)) || (error && !redirect(error, 2)))
        return fail(CANNOT_RUN, "the files for the streams cannot be opened");
    if (report)
        return run_and_report(argv + end + 1, report, argv, options);
    execv(argv[end + 1], argv + end + 1);
    return fail(CANNOT_RUN, "the loader cannot be run");
}
