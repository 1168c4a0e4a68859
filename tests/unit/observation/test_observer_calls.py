"""What the observer notes of each function of the C library: tables of statements in one C program."""

from __future__ import annotations

import os
import platform
import re

import pytest

from nvccache.observation.observed_process import Process
from observed_programs import compile_c, complete, run, the_observer_is_built

__all__ = ["run", "the_observer_is_built"]  # the fixtures

# In a statement FILE is the path of a file, PLACE of a directory, and NEW of nothing. The words are sets of
# the process that have that path afterwards. Where nothing is there, it is in `absent` instead.
LOOKUPS = {
    "stat(FILE, &status)": "found",
    "stat64(FILE, (void *)&status)": "found",
    "lstat(FILE, &status)": "found links",
    "fstatat(AT_FDCWD, FILE, &status, 0)": "found",
    "fstatat(AT_FDCWD, FILE, &status, AT_SYMLINK_NOFOLLOW)": "found links",
    "__xstat(1, FILE, &status)": "found",
    "__lxstat(1, FILE, &status)": "found links",
    "__fxstatat(1, AT_FDCWD, FILE, &status, 0)": "found",
    "statx(AT_FDCWD, FILE, 0, STATX_TYPE, &more)": "found",
    "access(PLACE, X_OK)": "found",
    "access(FILE, R_OK)": "found permissions",
    "euidaccess(FILE, W_OK)": "found permissions",
    "faccessat(AT_FDCWD, FILE, R_OK, 0)": "found permissions",
    "readlink(FILE, room, sizeof room)": "found links",
    "readlinkat(AT_FDCWD, FILE, room, sizeof room)": "found links",
    "realpath(FILE, room)": "found links",
    "canonicalize_file_name(FILE)": "found links",
    "opendir(PLACE)": "found listed",
    "scandir(PLACE, &list, NULL, NULL)": "found listed",
    "scandirat(AT_FDCWD, PLACE, &list, NULL, NULL)": "found listed",
    "fdopendir(open(PLACE, O_RDONLY))": "found listed others",
    "open(FILE, O_RDONLY)": "files",
    "open64(FILE, O_RDONLY)": "files",
    "openat(AT_FDCWD, FILE, O_RDONLY)": "files",
    "__open_2(FILE, O_RDONLY)": "files",
    "__openat_2(AT_FDCWD, FILE, O_RDONLY)": "files",
    "open(FILE, O_RDWR)": "files updated",
    "open(FILE, O_WRONLY)": "found updated",
    "open(FILE, O_WRONLY | O_APPEND)": "found updated",
    "open(FILE, O_PATH | O_NOFOLLOW)": "found links",
    'fopen(FILE, "r")': "files",
    'fopen64(FILE, "r+")': "files updated",
    'freopen(FILE, "r", stdin)': "files",
    "syscall(SYS_openat, AT_FDCWD, FILE, O_RDONLY)": "files",
    "syscall(SYS_openat, AT_FDCWD, FILE, O_RDWR)": "files updated",
    "syscall(SYS_newfstatat, AT_FDCWD, FILE, &status, 0)": "found",
    "syscall(SYS_newfstatat, AT_FDCWD, FILE, &status, AT_SYMLINK_NOFOLLOW)": "found links",
    "syscall(SYS_faccessat, AT_FDCWD, FILE, R_OK)": "found permissions",
    "syscall(SYS_faccessat, AT_FDCWD, PLACE, X_OK)": "found",
    "syscall(SYS_readlinkat, AT_FDCWD, FILE, room, sizeof room)": "found links",
    "syscall(SYS_statx, AT_FDCWD, FILE, 0, STATX_TYPE, &more)": "found",
    "syscall(SYS_statx, AT_FDCWD, FILE, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &more)": "found links",
    "execl(FILE, FILE, (char *)NULL)": "denied",
    'dlopen("./" FILE, RTLD_NOW)': "found",
    "if (!fork()) _exit(chdir(PLACE))": "found links",
}
if platform.machine() == "x86_64":
    LOOKUPS |= {
        "syscall(SYS_open, FILE, O_RDONLY)": "files",
        "syscall(SYS_open, FILE, O_RDWR)": "files updated",
        "syscall(SYS_access, FILE, R_OK)": "found permissions",
        "syscall(SYS_access, PLACE, X_OK)": "found",
        "syscall(SYS_readlink, FILE, room, sizeof room)": "found links",
        "syscall(SYS_stat, FILE, &status)": "found",
        "syscall(SYS_lstat, FILE, &status)": "found links",
    }
# Nothing was there before, and something is now; or else there was something, and it is as it was.
MAKING = {
    "mkdir(NEW, 0777)",
    "mkdirat(AT_FDCWD, NEW, 0777)",
    "mkfifo(NEW, 0666)",
    "mknod(NEW, S_IFREG | 0666, 0)",
    "symlink(NEW, NEW)",
    "symlinkat(NEW, AT_FDCWD, NEW)",
    "link(FILE, NEW)",
    "linkat(AT_FDCWD, FILE, AT_FDCWD, NEW, 0)",
    "renameat2(AT_FDCWD, FILE, AT_FDCWD, NEW, RENAME_NOREPLACE)",
    "open(NEW, O_CREAT | O_EXCL | O_WRONLY, 0666)",
    'fopen(NEW, "wx")',
}
# What was there and is gone; in a second run it is looked for in vain.
REMOVING = {
    "unlink(FILE)",
    "unlinkat(AT_FDCWD, FILE, 0)",
    "rmdir(PLACE)",
    "remove(FILE)",
    "rename(FILE, NEW)",
    "renameat(AT_FDCWD, FILE, AT_FDCWD, NEW)",
    "open(FILE, O_TRUNC | O_WRONLY)",
}
# What fails, and not because of what has the name.
REFUSED = {"link(PLACE, NEW)", 'rename(PLACE, PLACE "/within")'}
CHANGING = {
    "chmod(FILE, 0600)",
    "fchmodat(AT_FDCWD, FILE, 0600, 0)",
    "fchmod(open(FILE, O_RDONLY), 0600)",
    "utimes(FILE, NULL)",
    "utimensat(AT_FDCWD, FILE, NULL, 0)",
    "futimens(open(FILE, O_RDONLY), NULL)",
    "truncate(FILE, 1)",
    "chown(FILE, -1, -1)",
}
QUESTIONS = {
    "time(NULL)": "time",
    "gettimeofday(&times, NULL)": "gettimeofday",
    "clock_gettime(CLOCK_REALTIME_COARSE, &moment)": "clock_gettime",
    "syscall(SYS_clock_gettime, CLOCK_REALTIME, &moment)": "clock_gettime",
    "syscall(SYS_gettimeofday, &times, NULL)": "gettimeofday",
    "syscall(SYS_sched_getaffinity, 0, sizeof room, room)": "sched_getaffinity",
    "syscall(SYS_uname, room)": "uname",
    "syscall(SYS_getrandom, room, 1, 0)": "getrandom",
    "localtime(&seconds)": "localtime",
    "asctime_r(gmtime(&seconds), room)": "asctime_r",
    "gethostname(room, sizeof room)": "gethostname",
    "sysconf(84)": "sysconf",
    "getrandom(room, 1, 0)": "getrandom",
}
HARMLESS = {
    "syscall(SYS_gettid)",
    "if (syscall(SYS_getpid) != getpid() || syscall(SYS_close, -1) != -1) abort()",
    'errno = 77; syscall(SYS_openat, AT_FDCWD, ".", O_RDONLY); if (errno != 77) abort()',
    "socket(AF_UNIX, SOCK_STREAM, 0)",
    "clock_gettime(CLOCK_MONOTONIC, &moment)",
    "clock_gettime(CLOCK_THREAD_CPUTIME_ID, &moment)",
    "clock_gettime(CLOCK_BOOTTIME, &moment)",
    "fstat(0, &status)",
    'syscall(SYS_newfstatat, 2, "", &status, AT_EMPTY_PATH)',
    'syscall(SYS_statx, 2, "", AT_EMPTY_PATH, STATX_TYPE, &more)',
    'if (!fstat(open(".", O_TMPFILE | O_WRONLY, 0600), &status) && !(status.st_mode & 0600)) abort()',
}
UNOBSERVABLE = {
    'glob("*", 0, NULL, &found)': "looks up",
    'nftw(".", visit, 1, 0)': "looks up",
    'wordexp("x", &words, 0)': "looks up",
    'fts_open((char *[]){".", NULL}, FTS_LOGICAL, NULL)': "looks up",
    'shm_open("/never", O_RDONLY, 0)': "looks up",
    "posix_spawn_file_actions_addopen(&(posix_spawn_file_actions_t){0}, 0, FILE, 0, 0)": "looks up",
    "socket(AF_INET, SOCK_STREAM, 0)": "network",
    'getaddrinfo(NULL, "1", NULL, (void *)room)': "network",
    'gethostbyname("127.0.0.1")': "network",
    "name_to_handle_at(AT_FDCWD, FILE, NULL, NULL, 0)": "is not observed",
    "unshare(0)": "is not observed",
    "if (clone(child, &room[65536], CLONE_PARENT_SETTID, 0, &number) != number) abort()": "is not observed",
    'getxattr("/", "user.none", room, sizeof room)': "is not observed",
    "llistxattr(FILE, room, sizeof room)": "is not observed",
    "flistxattr(0, room, sizeof room)": "is not observed",
    "syscall(SYS_capset, NULL, NULL)": "is not observed",
    "syscall(SYS_unshare, 0)": "is not observed",
    'dlopen("libdl.so.2", RTLD_NOW | RTLD_DEEPBIND)': "may bypass the observer",
    'dlmopen(LM_ID_NEWLM, "libdl.so.2", RTLD_NOW)': "may bypass the observer",
}
PATHS = """
    found files others denied absent links listed written removed updated permissions
""".split()
TABLES = (LOOKUPS, MAKING, REMOVING, REFUSED, CHANGING, QUESTIONS, HARMLESS, UNOBSERVABLE)
ROWS = {statement: number for number, statement in enumerate(row for table in TABLES for row in table)}
PROGRAM = """\
#define _GNU_SOURCE
%s
int __xstat(int, const char *, struct stat *), __lxstat(int, const char *, struct stat *);
int __fxstat(int, int, struct stat *), __fxstatat(int, int, const char *, struct stat *, int);
int __open_2(const char *, int), __openat_2(int, const char *, int);

static int visit(const char *path, const struct stat *status, int kind, struct FTW *at)
{
    return 0;
}

static int child(void *of)
{
    return 0;
}

int main(int count, char **rows)
{
    static char room[65536];
    struct stat status; struct statx more;
    struct timeval times; struct timespec moment; struct dirent **list;
    int number = 0; time_t seconds = 0; glob_t found; wordexp_t words;

    while (*++rows)
        switch (atoi(*rows)) {
%s
        }
    while (wait(0) > 0)
        continue;
    return 0;
}
"""
HEADERS = """
    dirent dlfcn errno fcntl fts ftw glob netdb sched spawn stdio stdlib sys/mman sys/random sys/socket
    sys/stat sys/syscall sys/time sys/wait sys/xattr time unistd wordexp
"""


def name_in(statement: str, word: str) -> str:
    return f"{word.lower()}-{ROWS[statement]}"


def as_case(statement: str) -> str:
    text = re.sub(r"\b(FILE|PLACE|NEW)\b", lambda word: f'"{name_in(statement, word[0])}"', statement)
    text = text.replace("OPEN", f'open("{name_in(statement, "FILE")}", O_RDONLY)')
    return f"        case {ROWS[statement]}: {text}; break;"


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("calls")
    includes = "\n".join(f"#include <{name}.h>" for name in HEADERS.split())
    (folder / "calls.c").write_text(PROGRAM % (includes, "\n".join(map(as_case, ROWS))))
    return compile_c(folder / "calls.c", folder / "calls")


@pytest.fixture
def observe(run, program):
    """The one process that executed these statements."""

    def observe(statements, watched: str = "watched") -> Process:
        (process,) = complete(
            run(program, *(str(ROWS[one]) for one in statements), watched=watched)
        ).processes
        return process

    return observe


def make(run, statements, *words: str) -> None:
    for statement in statements:
        for word in words:
            path = run.directory / name_in(statement, word)
            path.mkdir() if word == "PLACE" else path.write_text("text")


def sets_with(process: Process, statement: str, *words: str) -> set[str]:
    """Which sets have the paths of this statement."""
    paths = {name_in(statement, word) for word in words}
    return {kind for kind in PATHS if not paths.isdisjoint(map(os.path.basename, getattr(process, kind)))}


def test_each_lookup_function_is_observed_for_absent_and_existing_names(run, observe):
    process = observe(LOOKUPS, "absent")
    for statement in LOOKUPS:
        assert "absent" in sets_with(process, statement, "FILE", "PLACE"), statement
    make(run, LOOKUPS, "FILE", "PLACE")
    process = observe(LOOKUPS)
    for statement, kinds in LOOKUPS.items():
        assert sets_with(process, statement, "FILE", "PLACE") == set(kinds.split()), statement
    for path, mode in process.found.items():
        statement = next((one for one in LOOKUPS if path.endswith(f"/{name_in(one, 'FILE')}")), "")
        if "stat" in statement:
            assert mode == (run.directory / path).stat().st_mode, statement


def test_creating_a_file_is_observed_as_a_lookup_of_its_name(run, observe):
    make(run, MAKING, "FILE")
    process = observe(MAKING, "free")
    for statement in MAKING:
        assert sets_with(process, statement, "NEW") >= {"absent", "written"}, statement
    make(run, [one for one in MAKING if "renameat2" in one], "FILE")
    process = observe(MAKING, "taken")
    for statement in MAKING:
        assert sets_with(process, statement, "NEW") & {"absent", "written", "found"} == {"found"}, statement


def test_a_file_that_gets_the_number_of_the_closed_standard_input_is_observed(run, tmp_path):
    (tmp_path / "made.c").write_text(
        "#include <stdlib.h>\n#include <unistd.h>\n"
        'int main(void) { char name[] = "made-XXXXXX"; close(0); return mkstemp(name); }\n'
    )
    (process,) = complete(run(compile_c(tmp_path / "made.c", tmp_path / "made"))).processes
    assert [os.path.basename(path)[:5] for path in process.written] == ["made-"]


def test_removing_an_existing_file_is_observed(run, observe):
    make(run, REMOVING, "FILE", "PLACE")
    process = observe(REMOVING, "there")
    for statement in REMOVING:
        assert "removed" in sets_with(process, statement, "FILE", "PLACE"), statement
    for path in run.directory.glob("file-*"):
        path.unlink()
    for path in run.directory.glob("place-*"):
        path.rmdir()
    process = observe(REMOVING, "gone")
    for statement in REMOVING:
        found = sets_with(process, statement, "FILE") or sets_with(process, statement, "PLACE")
        assert found & {"absent", "removed"} == {"absent"}, statement


def test_a_refused_change_is_observed_as_denied(run, observe):
    make(run, REFUSED, "PLACE")
    process = observe(REFUSED)
    for statement in REFUSED:
        assert "denied" in sets_with(process, statement, "PLACE", "NEW"), statement


def test_changing_mode_owner_or_dates_of_a_file_is_observed(run, observe):
    make(run, CHANGING, "FILE")
    process = observe(CHANGING)
    for statement in CHANGING:
        assert sets_with(process, statement, "FILE") & {"written", "updated"}, statement


def test_each_function_that_queries_the_machine_is_observed(observe):
    for at, (statement, question) in enumerate(QUESTIONS.items()):
        assert (question, 0) in observe([statement], str(at)).questions, statement


def test_calls_that_tell_nothing_of_the_machine_record_no_queries(run, observe):
    process = observe(HARMLESS)
    assert (process.questions, set(process.found)) == (set(), {str(run.directory)})


@pytest.mark.parametrize("statement", UNOBSERVABLE)
def test_unobservable_calls_make_the_observation_incomplete(run, program, statement):
    done, found = run(program, str(ROWS[statement]))
    assert (done.status, done.stderr) == (0, b"")
    assert UNOBSERVABLE[statement] in found.incomplete
