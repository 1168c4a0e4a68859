"""Checks of `files`."""

from __future__ import annotations

from guarded.table import DIRECTORY, FILES, QUESTIONS, Guard

GUARDS = [
    Guard(
        "regular files alone are read",
        "untrusted.py",
        "    if stat.S_ISREG(status.st_mode):\n        descriptor",
        "    if True:\n        return os.open(path, FILE & ~os.O_NOFOLLOW)\n        descriptor",
        QUESTIONS,
        "but_a_regular and digest and fifo",
    ),
    Guard(
        "how much is read of a loader and its cache",
        "untrusted.py",
        "not 0 < most < status.st_size",
        "True",
        QUESTIONS,
        "of_regular_files",
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
        "if now_ns - last_change(signature, now_ns) <= _FINE_SECONDS * _SECOND:",
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
        "return kind is None or kind in _REAL or kind in _LAYERS",
        "return True",
        "test_filesystems.py",
        "whose_dates",
    ),
    Guard(
        "dates that somebody gave an image",
        "filesystems.py",
        "return kind in _REAL and device == _device_of_system()",
        "return kind in _REAL",
        "test_signatures.py",
        "an_image",
    ),
    Guard(
        "directories in images",
        "input_records.py",
        "if not signatures.is_settled(found, since_ns):",
        "if False:",
        "test_lookups.py",
        "dates_tell_nothing",
    ),
    Guard(
        "changes in the second that a date says",
        "signatures.py",
        "slack = 0 if signature[4] % _SECOND else _COARSE_SECONDS * _SECOND",
        "slack = 0",
        "test_signatures.py",
        "without_fractions",
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
