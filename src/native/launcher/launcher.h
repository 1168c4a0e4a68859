/* The executable `nvccache`: replays a call that was made before if nothing has changed since, and starts Python
   for all others.

   nvccache.c   the order of steps
   replay.c     the replay, from the record to the streams
   call.c       the call as typed, and the cache that it uses
   cache.c      the cache directory: tag, folders, files, record
   same.c       whether environment and files are unchanged
   process.c    whether the machine and the properties of this process are
   products.c   writing products
   event.c      the line of the event log
   build.c      the build that the call belongs to
   xxh3.c       checksums, which detect damage
   blake3.c     digests, which name a call and the values of variables
   python.c     finding and starting Python
   compiler.c   running the compiler where there is no Python

   Functions return whether they succeeded, unless their comment says otherwise. If one fails, Python handles the
   call: what was written by then is written again. */

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
#define NAME_ROOM (2 * DIGEST + 1)
/* Files of the cache are opened without following links, without blocking, and never as our terminal. */
#define FILE_FLAGS (O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
#define FOLDER_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* The call and, once found, its record; nvcc's arguments begin after `first` others. */
struct call {
    int argc;
    char **argv;
    const char *started;
    unsigned char digest[DIGEST];
    char cwd[PATH_MAX];
    char cache[PATH_MAX];
    char name[NAME_ROOM];
    int first;
    struct timespec began; /* by CLOCK_REALTIME and CLOCK_MONOTONIC */
    struct timespec since;
};

struct record {
    const unsigned char *start;
    const struct replay_head *head;
    const char *strings;
};

/* nvccache.c */
const char *name_of(const char *path);
int is_one_of(const char *word, const char *const *list);

/* replay.c: returns if Python must handle the call; NAME_ROOM characters then name the record, or are empty. */
void answer_by_record(struct call *call);

/* call.c */
int describe_call(struct call *call);
int make_absolute(const char *path, const char *cwd, char *absolute);

/* cache.c */
int open_cache(const char *path, int is_private);
int open_in(int top, const char *folder, const char *name, int flags, struct stat *status);
const void *content_of(int file, uint64_t size);
int find_record(int top, const struct call *call, struct record *record);
const void *section(const struct record *record, int number, uint32_t *count);
const char *string(const struct record *record, uint32_t at);
int is_stale(const struct stat *status, const struct timespec *now);

/* same.c */
int is_same_environment(const struct record *record);
int is_same_reader(const struct record *record);
int are_same_files(const struct record *record);

/* process.c */
int is_same_process(const struct record *record);
int is_same_machine(const struct record *record);
int has_room_for_temporary_files(void);
int has_tight_limits(void);

/* products.c */
int give_products(int top, const struct call *call, const struct record *record);
int write_all(int file, const char *content, uint64_t size);

/* event.c */
int open_log(const struct record *record);
void note_event(int log, const struct call *call, const struct record *record);

/* build.c */
void find_build(char *build, size_t size);
int read_file(const char *path, char *room, size_t size);

/* xxh3.c: SUM bytes of a sum, in canonical form */
void sum_of(const void *content, size_t size, unsigned char *sum);

/* blake3.c: DIGEST bytes */
void digest_of(const void *content, size_t size, unsigned char *digest);

/* python.c: return if it cannot be started */
int find_folder(const char *started, char *folder);
void start_python(const char *folder, const struct call *call);
void release_loader_variables(void); /* of a Python that could not load nvccache */

/* compiler.c: returns if none can be started */
void run_compiler(const char *started, char **argv);

#endif
