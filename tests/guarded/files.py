"""Checks of `files`."""

from __future__ import annotations

from guarded.table import DIRECTORY, FILES, QUESTIONS, Guard

GUARDS = [
    Guard(
        "regular files alone are read",
        "untrusted.py",
        "    if can_be_read(status, most or _MOST):\n        descriptor",
        "    if True:\n        return os.open(path, FILE & ~os.O_NOFOLLOW)\n        descriptor",
        QUESTIONS,
        "but_a_regular and digest and fifo",
    ),
    Guard(
        "how much is read of a loader and its cache",
        "untrusted.py",
        " or status.st_size > most:",
        ":",
        QUESTIONS,
        "of_regular_files",
    ),
    Guard(
        "files that are made when they are read",
        "untrusted.py",
        "return not filesystems.makes_when_read(status.st_dev)",
        "return True",
        "test_untrusted.py",
        "made_when and kernel",
    ),
    Guard(
        "files that go on behind their size",
        "untrusted.py",
        "    object_to_more(descriptor)\n",
        "    pass\n",
        "test_untrusted.py",
        "goes_on",
    ),
    Guard(
        "the inode and change time in a signature",
        "signatures.py",
        '"st_mtime_ns", "st_ctime_ns"\n',
        '"st_mtime_ns", "st_mtime_ns"\n',
        FILES,
        "same and size and date",
    ),
    Guard(
        "signatures too new to last",
        "signatures.py",
        "if now_ns - changed <= margin * _SECOND:",
        "if False:",
        "test_signatures.py",
        "settled or moment_ago",
    ),
    Guard(
        "dates that say nothing",
        "signatures.py",
        "return filesystems.dates_tell(signature[0], signature[4])",
        "return True",
        "test_signatures.py",
        "say_nothing",
    ),
    Guard(
        "dates of images and FUSE",
        "filesystems.py",
        "return (kind is None or kind in _LAYERS) and",
        "return",
        "test_filesystems.py",
        "whose_dates",
    ),
    Guard(
        "cache: links are not followed to files",
        "untrusted.py",
        "FILE = os.O_NOFOLLOW | ",
        "FILE = ",
        DIRECTORY,
        "no_link",
    ),
    Guard(
        "cache: links are not followed to folders",
        "untrusted.py",
        "os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW",
        "os.O_PATH | os.O_DIRECTORY",
        DIRECTORY,
        "no_link",
    ),
    Guard(
        "cache: second names are not touched",
        "untrusted.py",
        "if status.st_nlink == 1:",
        "if True:",
        DIRECTORY,
        "second_name",
    ),
]
