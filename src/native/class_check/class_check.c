/* Runs a stage on another machine if its processor is of the same class as that of the requesting one.
 *
 *     class-check [-o FILE -e FILE -r FILE] [-w FILE]... CHECK... -- LOADER ARGUMENT...
 *
 * The tools of a stage fold mathematics by the functions that the C library chooses for the processor, see
 * toolkit/processor.py. So the dynamic loader that comes with the stage is queried here; a check is
 *
 *     LEAF.REGISTER&MASK=BITS      hexadecimal numbers: these active features of an x86 processor, or
 *     =LINE                        a line of its answer
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

enum { OTHER_CLASS = 97, CANNOT_RUN = 98, MOST = 1 << 20 };

static int fail(int status, const char *what)
{
    fprintf(stderr, "nvccache class-check: %s\n", what);
    return status;
}

/* The loader's description of the machine, or NULL. */
static char *diagnostics(char *loader)
{
    static char description[MOST];
    size_t length = 0;
    ssize_t part;
    int ends[2], status = 0;
    pid_t child;

    if (pipe(ends) != 0 || (child = fork()) < 0)
        return NULL;
    if (child == 0) {
        char *argv[] = {loader, (char *)"--list-diagnostics", NULL};
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execv(loader, argv);
        _exit(CANNOT_RUN);
    }
    close(ends[1]);
    while (length < MOST - 1) {
        part = read(ends[0], description + length, MOST - 1 - length);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            break;
        length += (size_t)part;
    }
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    description[length] = '\0';
    return status == 0 && length > 0 ? description : NULL;
}

/* The rest of the line that starts with this text, or NULL. */
static const char *rest_after(const char *description, const char *start)
{
    size_t length = strlen(start);
    const char *line = description;

    while (line) {
        if (strncmp(line, start, length) == 0)
            return line + length;
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return NULL;
}

static int holds(const char *description, const char *check)
{
    unsigned long leaf, number, mask, bits;
    const char *value;
    char start[128];

    if (check[0] == '=') {
        value = rest_after(description, check + 1);
        return value && (*value == '\n' || *value == '\0');
    }
    if (sscanf(check, "%lx.%lx&%lx=%lx", &leaf, &number, &mask, &bits) != 4)
        return 0;
    snprintf(start, sizeof start, "x86.cpu_features.features[0x%lx].active[0x%lx]=", leaf, number);
    value = rest_after(description, start);
    return value && (strtoul(value, NULL, 16) & mask) == bits;
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
    char *description;
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
    description = diagnostics(argv[end + 1]);
    if (!description)
        return fail(CANNOT_RUN, "the loader cannot be asked for the class of the processor");
    for (; checks < end; checks++)
        if (!holds(description, argv[checks]))
            return fail(OTHER_CLASS, "the processor here is of another class");
    if ((out && !redirect(out, 1)) || (error && !redirect(error, 2)))
        return fail(CANNOT_RUN, "the files for the streams cannot be opened");
    if (report)
        return run_and_report(argv + end + 1, report, argv, options);
    execv(argv[end + 1], argv + end + 1);
    return fail(CANNOT_RUN, "the loader cannot be run");
}
