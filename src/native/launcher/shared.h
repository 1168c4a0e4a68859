/* What the launcher shares with Python. Written by src/native/generate_native_header.py; edit the code that
   it reads instead. The layout of a record is drawn in src/nvccache/records/replay_layout.py. */

#ifndef SHARED_H
#define SHARED_H

#include <stdint.h>

#define REPLAY_MAGIC "replay12"
#define SUM 16
#define DIGEST 32
#define SUMMED_AFTER 24 /* bytes of a record */

enum { IN_STRINGS, IN_DIRECTORIES, IN_FILES, IN_ABSENT, IN_PRESENT,
    IN_PLAIN, IN_LINKS, IN_IDENTITIES, IN_VARIABLES, IN_PREFIXES, IN_READER, IN_PRODUCTS, SECTIONS };

struct replay_section { uint32_t at, count; };

struct replay_head {
    unsigned char magic[8];
    unsigned char sum[16];
    uint64_t size;
    unsigned char call[32];
    unsigned char environment[32];
    unsigned char host[32];
    unsigned char caller[32];
    uint64_t log_mode;
    uint32_t boot;
    uint32_t journal;
    uint32_t event;
    uint32_t event_size;
    uint32_t first;
    uint32_t rule;
    uint32_t output;
    uint32_t output_size;
    uint32_t messages;
    uint32_t messages_size;
    struct replay_section sections[SECTIONS];
};
_Static_assert(sizeof(struct replay_head) == 208 + SECTIONS * sizeof(struct replay_section), "a gap");

struct replay_file {
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    int64_t modified;
    int64_t changed;
    uint32_t name;
    uint32_t directory;
};
_Static_assert(sizeof(struct replay_file) == 48, "a gap");

struct replay_present {
    uint32_t path;
    uint32_t state;
};
_Static_assert(sizeof(struct replay_present) == 8, "a gap");

struct replay_identity {
    uint32_t path;
    uint32_t first;
};
_Static_assert(sizeof(struct replay_identity) == 8, "a gap");

struct replay_product {
    unsigned char sum[16];
    uint64_t size;
    uint32_t path;
    uint32_t blob;
    uint32_t content;
    uint32_t unlink_first;
};
_Static_assert(sizeof(struct replay_product) == 40, "a gap");

#define ELEMENT_SIZES {1, 4, 48, 4, 8, 4, 8, 8, 4, 4, 4, 40}

#define REPLAY_BUCKET "replay-v12"
#define BLOB_BUCKET "blob-v3"
#define TAG_NAME "CACHEDIR.TAG"
#define TAG "Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache made by nvccache.\n"
#define JOURNAL "journal"
#define LOG "calls-v7.log"
#define SHIM_MARK "# The nvcc shim of nvccache."
#define TRIED "_NVCCACHE_TRIED"
#define BOOT "/proc/sys/kernel/random/boot_id"
#define KEY_LENGTH 64
#define LARGEST_RECORD 67108864
#define BLOB_SUMMED_FROM 2097152
#define BLOB_TAIL 98
#define REFRESHED_AFTER 21600
#define LARGE_LOG 4194304
#define MARK_WITHIN 8192
#define NESTED 3
#define WORTH_CLONING 1048576
#define BLOCK 512
#define LINK_TRIES 3

#define VARIABLES_OF_CALL {"PWD", "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", 0}

#define OWN_PREFIXES {"NVCCACHE_", "_NVCCACHE_", 0}

#define OWN_NAMES {"nvccache", "nvccache-python", 0}

#define STATUS_OF_CALLER {"CapEff", "Cpus_allowed", "Gid", "Groups", "Uid", "Umask", 0}

#define IGNORED_VARIABLES {"MAKEFLAGS", "MAKELEVEL", "MAKE_TERMERR", "MAKE_TERMOUT", "MFLAGS", "OLDPWD", \
    "SHLVL", "TEMP", "TEMPDIR", "TMP", "TMPDIR", "_", 0}

#define COMPLETE_WORDS {"--Wno-deprecated-declarations", "--Wno-deprecated-gpu-targets", "--compile", \
    "--cubin", "--debug", "--device-c", "--device-debug", "--device-link", "--device-w", \
    "--disable-warnings", "--dlink-time-opt", "--expt-extended-lambda", "--expt-relaxed-constexpr", \
    "--extended-lambda", "--fatbin", "--forward-unknown-to-host-compiler", "--generate-dependencies", \
    "--generate-dependencies-with-compile", "--generate-dependency-targets", "--generate-line-info", \
    "--generate-nonsystem-dependencies", "--generate-nonsystem-dependencies-with-compile", "--help", \
    "--list-gpu-arch", "--list-gpu-code", "--m64", "--preprocess", "--ptx", "--resource-usage", \
    "--restrict", "--shared", "--use_fast_math", "--version", "-E", "-G", "-M", "-MD", "-MM", "-MMD", \
    "-MP", "-O0", "-O1", "-O2", "-O3", "-V", "-Wall", "-Wextra", "-Wno-deprecated-declarations", \
    "-Wno-deprecated-gpu-targets", "-Wno-unused", "-Wpedantic", "-arch-ls", "-c", "-code-ls", "-cubin", \
    "-dc", "-dlink", "-dlto", "-dw", "-expt-extended-lambda", "-expt-relaxed-constexpr", \
    "-extended-lambda", "-fPIC", "-fPIE", "-fatbin", "-fopenmp", "-forward-unknown-to-host-compiler", \
    "-fpic", "-fpie", "-g", "-h", "-lineinfo", "-m64", "-pipe", "-pthread", "-ptx", "-res-usage", \
    "-restrict", "-shared", "-use_fast_math", "-w", 0}

#define OUTPUT_OPTION {"--output-file", "-o", 0}

#define DEPFILE_OPTION {"--dependency-output", "-MF", 0}

#define DIRECTORY_OPTION {"--output-directory", "-odir", 0}

#define OPTIONS_FILE_OPTION {"--options-file", "-optf", 0}

#define DEVICE_LINK_OPTION {"--device-link", "-dlink", 0}

#define TARGET_OPTION {"--dependency-target-name", "-MT", 0}

#define WITH_DEPENDENCIES {"--generate-dependencies-with-compile", \
    "--generate-nonsystem-dependencies-with-compile", "-MD", "-MMD", 0}

#define GLUED {"-D", "-I", "-L", "-U", 0}

#define QUERIES {"--generate-dependencies", "--generate-nonsystem-dependencies", "--help", \
    "--list-gpu-arch", "--list-gpu-code", "--preprocess", "--version", "-E", "-M", "-MM", "-V", \
    "-arch-ls", "-code-ls", "-h", 0}

#define MAKE_DIRECTIVES {"-include", "-load", "define", "else", "endef", "endif", "export", "ifdef", \
    "ifeq", "ifndef", "ifneq", "include", "load", "override", "private", "sinclude", "undefine", \
    "unexport", "vpath", 0}

#define MODES {{"--compile", ".o"}, {"-c", ".o"}, {"--device-c", ".o"}, {"-dc", ".o"}, {"--device-w", \
    ".o"}, {"-dw", ".o"}, {"--ptx", ".ptx"}, {"-ptx", ".ptx"}, {"--cubin", ".cubin"}, {"-cubin", \
    ".cubin"}, {"--fatbin", ".fatbin"}, {"-fatbin", ".fatbin"}}

#define MEANT_FOR_MAKE {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, \
    24, 25, 26, 27, 28, 29, 30, 31, 36, 59, 61, 127}

#define LEAST_LIMITS {{RLIMIT_STACK, 8388608}, {RLIMIT_AS, 68719476736}, {RLIMIT_DATA, 68719476736}, \
    {RLIMIT_FSIZE, 4294967296}, {RLIMIT_NOFILE, 256}, {RLIMIT_NPROC, 64}, {RLIMIT_CPU, 3600}}

#endif
