/* Replays a call that was made before from its record.

   Nothing is written before everything that the record names has been found unchanged. In case of doubt, Python handles
   the call. */

#include "launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Whether the answer to a query can be written as nvcc would write it (src/nvccache/machine/streams.py). */
static int has_suited_streams(const struct record *record)
{
    struct stat output, messages;

    if (!record->head->output_size)
        return 1;
    if (isatty(1) || fstat(1, &output) != 0 || fstat(2, &messages) != 0)
        return 0;
    return !record->head->messages_size || output.st_dev != messages.st_dev || output.st_ino != messages.st_ino;
}

/* Whether there is a record of this call that is still valid. */
static int holds(int top, const struct call *call, struct record *record)
{
    return find_record(top, call, record) && is_same_environment(record) && is_same_reader(record) &&
           is_same_machine(record) &&
           (!record->head->is_query || has_suited_streams(record)) && are_same_files(record);
}

/* Write the products and then the messages, and count the call. Neither a signal nor a limit of file sizes may end this
   process between two files. A compile ignores a closed pipe. If the answer to a query cannot be written, nvcc runs, so
   that it fails in its own way. */
static int give(int top, const struct call *call, const struct record *record)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, too_large, nobody_reads;
    const struct replay_head *head = record->head;
    int log = open_log(top), is_given;
    sigset_t stop, before;

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
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (is_given && (write_all(1, record->strings + head->output, head->output_size) || !head->is_query)) {
        write_all(2, record->strings + head->messages, head->messages_size);
        note_event(log, call, record);
        return 1;
    }
    close(log);
    sigaction(SIGXFSZ, &too_large, NULL);
    sigaction(SIGPIPE, &nobody_reads, NULL);
    return 0;
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
    if (getauxval(AT_SECURE) || !has_streams() || !describe_call(call))
        return;
    top = open_cache(call->cache);
    if (top < 0)
        return;
    if (holds(top, call, &record) && give(top, call, &record)) {
        if (record.is_touched)
            renew_record(top, call, &record);
        _exit(0);
    }
    close(top);
}
