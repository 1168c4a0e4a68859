/* What the launcher shares with Python. Written by src/native/generate_native_header.py; edit the code that
   it reads instead. The layout of a record is drawn in src/nvccache/records/replay_layout.py. */

#ifndef SHARED_H
#define SHARED_H

#include <stdint.h>

#define REPLAY_MAGIC "replay18"
#define SUM 16
#define SUMMED_AFTER 24 /* bytes of a record */

enum { IN_CALL, IN_STRINGS, IN_DIRECTORIES, IN_FILES, IN_FOLDERS, IN_NAMES,
    IN_PLAIN, IN_LINKS, IN_VARIABLES, IN_PREFIXES, IN_READER, IN_PRODUCTS, SECTIONS };

struct replay_section { uint32_t at, count; };

struct replay_head {
    unsigned char magic[8];
    unsigned char sum[16];
    uint64_t size;
    unsigned char environment[16];
    uint32_t boot;
    uint32_t event;
    uint32_t event_size;
    uint32_t is_query;
    uint32_t output;
    uint32_t output_size;
    uint32_t messages;
    uint32_t messages_size;
    struct replay_section sections[SECTIONS];
};
_Static_assert(sizeof(struct replay_head) == 80 + SECTIONS * sizeof(struct replay_section), "a gap");

struct replay_signature {
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    int64_t modified;
    int64_t changed;
};
_Static_assert(sizeof(struct replay_signature) == 40, "a gap");

struct replay_file {
    struct replay_signature signature;
    unsigned char sum[16];
    unsigned char code[16];
    uint32_t name;
    uint32_t directory;
};
_Static_assert(sizeof(struct replay_file) == 80, "a gap");

struct replay_folder {
    struct replay_signature signature;
    uint32_t path;
    uint32_t names;
};
_Static_assert(sizeof(struct replay_folder) == 48, "a gap");

struct replay_name {
    uint32_t name;
    uint32_t state;
};
_Static_assert(sizeof(struct replay_name) == 8, "a gap");

struct replay_product {
    unsigned char sum[16];
    uint64_t size;
    uint32_t path;
    uint32_t blob;
    uint32_t content;
    uint32_t unlink_first;
};
_Static_assert(sizeof(struct replay_product) == 40, "a gap");

#define REPLAY_BUCKET "replay-v21"
#define BLOB_BUCKET "blob-v3"
#define TAG_NAME "CACHEDIR.TAG"
#define TAG "Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache made by nvccache.\n"
#define TEMPORARY "tmp"
#define JOURNAL "journal"
#define LOG "calls-v12.log"
#define TRIED "_NVCCACHE_TRIED"
#define BOOT "/proc/sys/kernel/random/boot_id"
#define LARGEST_CODE 262144
#define LARGEST_RECORD 67108864
#define BLOB_SUMMED_FROM 2097152
#define BLOB_TAIL 98
#define REFRESHED_AFTER 21600
#define LARGE_LOG 4194304
#define NESTED 3
#define WORTH_CLONING 1048576
#define MOST_PRODUCTS 2

#define VARIABLES_OF_CALL {"PWD", "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", 0}

#define IGNORED_VARIABLES {"MAKEFLAGS", "MAKELEVEL", "MAKE_TERMERR", "MAKE_TERMOUT", "MFLAGS", "OLDPWD", \
    "SHLVL", "TEMP", "TEMPDIR", "TMP", "TMPDIR", "_", 0}

#endif
