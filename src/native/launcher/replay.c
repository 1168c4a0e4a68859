/* The replay of a call that was made before, from its record to the streams.

   Nothing is written before everything that the record names has been found unchanged. In case of doubt, Python
   decides. */

#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static int print_to(int stream, const char *text, uint32_t size)
{
    while (size) {
        ssize_t written = write(stream, text, size);

        if (written > 0) {
            text += written;
            size -= (uint32_t)written;
        } else if (errno == EAGAIN) {
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        } else if (errno != EINTR) {
            return 0;
        }
    }
    return 1;
}

/* Whether the answer to a query can be written as nvcc writes it (see src/nvccache/machine/streams.py). */
static int has_suited_streams(const struct record *record)
{
    struct stat output, messages;

    if (!record->head->output_size)
        return 1;
    if (isatty(1) || fstat(1, &output) != 0 || fstat(2, &messages) != 0)
        return 0;
    return !record->head->messages_size || output.st_dev != messages.st_dev || output.st_ino != messages.st_ino;
}

/* Whether the record is valid for this call now. */
static int holds(int top, const struct call *call, struct record *record)
{
    return find_record(top, call, record) && is_same_environment(record) && is_same_reader(record) &&
           has_room_for_temporary_files() && is_same_machine(record) &&
           is_same_process(record) && (!record->head->is_query || has_suited_streams(record)) &&
           are_same_files(record);
}

/* Write to the streams. A compile ignores a closed pipe; a query that cannot be answered in full goes to nvcc,
   which fails in its own way. */
static int tell(const struct record *record, int is_query)
{
    struct stat status;
    off_t place = -1;

    if (is_query && fstat(1, &status) == 0 && S_ISREG(status.st_mode))
        place = lseek(1, 0, SEEK_CUR);
    if (!print_to(1, record->strings + record->head->output, record->head->output_size) && is_query) {
        if (place >= 0 && ftruncate(1, status.st_size) == 0)
            lseek(1, place, SEEK_SET);
        return 0;
    }
    print_to(2, record->strings + record->head->messages, record->head->messages_size);
    return 1;
}

/* Write the products and count the call; no signal may end us between files, nor a limit of file sizes. */
static int give(int top, const struct call *call, const struct record *record)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, too_large, nobody_reads;
    int is_query = record->head->is_query != 0, is_given;
    sigset_t stop, before;
    int log;

    log = open_log(record);
    if (log < 0)
        return 0;
    sigemptyset(&stop);
    sigaddset(&stop, SIGHUP);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    sigprocmask(SIG_BLOCK, &stop, &before);
    sigaction(SIGXFSZ, &ignore, &too_large);
    sigaction(SIGPIPE, &ignore, &nobody_reads);
    is_given = give_products(top, call, record);
    if (is_given && !is_query)
        note_event(log, call, record);
    sigprocmask(SIG_SETMASK, &before, NULL);
    is_given = is_given && tell(record, is_query);
    if (is_given && is_query)
        note_event(log, call, record);
    if (!is_given) {
        sigaction(SIGXFSZ, &too_large, NULL);
        sigaction(SIGPIPE, &nobody_reads, NULL);
    }
    return is_given;
}

/* Whether the standard streams are open, so that no other file has their numbers. */
static int has_streams(void)
{
    return fcntl(0, F_GETFD) >= 0 && fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0;
}

void answer_by_record(struct call *call)
{
    struct record record;
    int top;

    call->name[0] = '\0';
    if (getauxval(AT_SECURE) || has_tight_limits() || !has_streams() || !describe_call(call))
        return;
    top = open_cache(call->cache, 1);
    if (top < 0)
        return;
    if (!holds(top, call, &record)) {
        close(top);
        return;
    }
    if (!give(top, call, &record)) {
        close(top);
        return;
    }
    _exit(0);
}
