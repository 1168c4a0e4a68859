/* The executable `nvccache`: replays a call that was made before if nothing has changed since, and starts Python for
   all other calls. Each file calls only functions of files that are listed below it, as scripts/check_pages.py checks:

   nvccache.c   the order of steps
   script.c     running an nvcc that is a script
   python.c     finding and starting Python
   compiler.c   finding the compiler, and running it if Python cannot be started
   replay.c     the replay of a call from its record
   products.c   writing products
   event.c      the call's line in the event log
   same.c       whether environment, files and machine are unchanged
   comments.c   the checksum of a source without comments
   cache.c      the cache directory: tag, files, record
   call.c       the call as typed, and the cache that it uses
   text.c       names, lists of words, small files
   xxh3.c       checksums, which name calls and detect damage

   Functions return whether they succeeded, unless their comment says otherwise. If one fails, Python handles the call,
   and writes again what was written by then. */

#ifndef LAUNCHER_H
#define LAUNCHER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "shared.h"

#define SCRIPT "nvccache-python"
#define ROOM (PATH_MAX + 64)
#define NAME_ROOM (2 * SUM + 1)

/* The call as typed. */
struct call {
    int argc;
    char **argv;
    const char *started;
    const char *block; /* everything that identifies the call */
    size_t block_size;
    char cwd[PATH_MAX];
    char cache[PATH_MAX];
    char name[NAME_ROOM]; /* the checksum of the block; empty if Python must handle the call */
    struct timespec began; /* the start of the call by CLOCK_REALTIME; `since` is the same by CLOCK_MONOTONIC */
    struct timespec since;
};

struct record {
    unsigned char *start;
    struct replay_head *head;
    const char *strings;
    char path[sizeof REPLAY_BUCKET + NAME_ROOM + 4];
    time_t settled; /* if a file changed before this time, its dates show any later change */
    int is_touched; /* it has new signatures, which its file lacks */
};

/* python.c: start_python returns only if Python cannot be started */
int find_folder(const char *started, char *folder);
void start_python(const char *folder, const struct call *call);
void release_loader_variables(void); /* needed after Python could not load nvccache */

/* script.c */
int leave_script(struct call *call);
/* returns if Python must handle the call */
void run_nvcc_script(const struct call *call, const char *folder, int is_within);

/* compiler.c: `found` has ROOM bytes; find_compiler returns the call's arguments from the compiler's name on */
int find_on_path(const char *name, char *found);
char **find_compiler(const struct call *call, char *found);
void become(const char *path, char **words); /* this and the next function return only on failure */
void run_compiler(const struct call *call);

/* replay.c: returns if Python must handle the call */
void answer_by_record(struct call *call);

/* products.c */
int give_products(int top, const struct call *call, const struct record *record);

/* event.c */
int open_log(int top);
void note_event(int log, const struct call *call, const struct record *record);

/* same.c */
int is_same_environment(const struct record *record);
int is_same_reader(const struct record *record);
int are_same_files(struct record *record);
int is_same_machine(const struct record *record);

/* comments.c */
int sum_of_code(char *text, size_t size, unsigned char *sum);

/* cache.c */
int open_cache(const char *path);
int open_in(int top, const char *path, int flags, struct stat *status);
void *content_of(int file, uint64_t size);
int find_record(int top, const struct call *call, struct record *record);
void renew_record(int top, const struct call *call, const struct record *record);
void *section(const struct record *record, int number, uint32_t *count);
const char *string(const struct record *record, uint32_t at);
int is_stale(const struct stat *status, const struct timespec *now);

/* call.c */
int describe_call(struct call *call);
int is_masquerade(const struct call *call);
int find_setting(const char *variable, const char *name, char *value);

/* text.c */
const char *name_of(const char *path);
int is_one_of(const char *word, const char *const *list);
int read_file(const char *path, char *text, size_t size);
int write_all(int file, const void *content, uint64_t size);

/* xxh3.c: a checksum of SUM bytes, in canonical form */
void sum_of(const void *content, size_t size, unsigned char *sum);

#endif
