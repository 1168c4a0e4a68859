"""Restores the outputs of a call, each product whole or not at all, and writes its depfile.

Part of the hot path. The result on disk is what nvcc would have left: the depfile first, since nvcc writes it
before it compiles, then the products. gas unlinks an existing object that is not empty and creates a new one;
nvcc and its other tools write into an existing file, which keeps its inode, mode and hard links. The same
happens here, but a new file gets its name only once it is complete:

    no file             written without a name (O_TMPFILE), then linked
    unlinked first      the same, with the old file unlinked right before
    overwritten         in place, after its blocks have been reserved; a torn file is removed

An unnamed file disappears with its process, however that ends. On a file system without O_TMPFILE, such as
NFS, a new file is written under its name as nvcc writes it, and removed if not all products can be written.

The depfile of -MD and -MMD is generated for each call, since it names the call's output. Its format was
compared with nvcc's on 11.8 to 13.5; passes.py decides which files it lists.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` itself loads enum, which costs 3 ms
import os
import stat

from nvccache.records.output_names import STANDARD_OUTPUT
from nvccache.store import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from nvccache.commandline.invocation import Invocation
    from nvccache.records.record import Result
    from nvccache.store.store import Store


WORTH_CLONING = 1 << 20  # bytes; importing fcntl to clone a smaller product takes longer than writing it
BLOCK = 512  # bytes in the unit of st_blocks
TRIES = 3  # another process may create a file of the same name at the same time
_STOP_SIGNALS = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM)
RESTORED, LOST, UNWRITABLE = "restored", "lost", "unwritable"


class Product:
    """A file to be written."""

    __slots__ = ("content", "destination", "raw_blob", "unlink_first")

    def __init__(
        self, destination: str, content: bytes, raw_blob: str = "", unlink_first: bool = False
    ) -> None:
        self.destination = destination
        self.content = content
        self.raw_blob = raw_blob  # a file of the cache that may have the same content, for cloning
        self.unlink_first = unlink_first  # an existing file is replaced, as by gas


def write_all(products: Sequence[Product]) -> None:
    """Write these products, in this order.

    Raises OSError, or ValueError for an invalid name; if there was no room for one, none has been written. A
    destination that is no regular file, or is our standard output or error, is an error as well: left to
    nvcc.
    """
    pending: list[_Pending] = []
    # No watchdog cleans up after a direct hit that is stopped by a signal.
    blocked = _signal.pthread_sigmask(_signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        for product in products:
            if product.destination != os.devnull:
                pending.append(_Pending(product))
                pending[-1].prepare()
        for one in pending:
            one.commit()
    finally:
        for one in pending:
            one.close()
        _signal.pthread_sigmask(_signal.SIG_SETMASK, blocked)


class _Pending:
    """A product being written: invisible before `commit`; `close` undoes what was not committed."""

    __slots__ = ("_before", "_created", "_descriptor", "_is_torn", "_product")

    def __init__(self, product: Product) -> None:
        self._product = product
        self._descriptor = -1
        self._before: os.stat_result | None = None  # the status of the file to be overwritten
        self._created = ""  # the path of a file that has its name before it is committed
        self._is_torn = False

    def prepare(self) -> None:
        """Write the content, or reserve room for it."""
        destination = self._product.destination
        try:
            found = os.stat(destination)
        except FileNotFoundError:
            if os.path.islink(destination):
                self._open_existing()
            else:
                self._write_new()
            return
        if not stat.S_ISREG(found.st_mode):
            raise OSError("a product that is no regular file")
        if not self._product.unlink_first or not found.st_size:  # the condition of binutils
            self._open_existing()
            return
        try:
            self._write_new()
        except PermissionError:  # the directory is not writable: gas writes into the file then
            self._open_existing()

    def commit(self) -> None:
        if not self._before and not self._created and not self._link():
            os.close(self._descriptor)
            self._descriptor = -1
            self._open_existing()
        if self._before:
            self._is_torn = True
            _fill(self._descriptor, self._product)
            os.ftruncate(self._descriptor, len(self._product.content))
            self._before = None
        self._created = ""

    def close(self) -> None:
        """Undo what was not committed. If a file's old content is lost, remove it, so that make notices."""
        if self._created or (self._is_torn and self._before):
            _succeeds(os.unlink, self._created or self._product.destination)
        elif self._before:
            before, now = self._before, os.fstat(self._descriptor)
            if now.st_size != before.st_size:
                _succeeds(lambda size: os.ftruncate(self._descriptor, size), before.st_size)
            if os.fstat(self._descriptor).st_mtime_ns != before.st_mtime_ns:  # even if fallocate failed
                times = (before.st_atime_ns, before.st_mtime_ns)
                _succeeds(lambda ns: os.utime(self._descriptor, ns=ns), times)
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _write_new(self) -> None:
        destination, flags = self._product.destination, os.O_RDWR | os.O_CLOEXEC
        try:
            self._descriptor = os.open(os.path.dirname(destination) or ".", flags | os.O_TMPFILE, 0o666)
        except OSError:
            if self._product.unlink_first and os.path.lexists(destination):
                os.unlink(destination)
            self._descriptor = os.open(destination, flags | os.O_CREAT | os.O_EXCL, 0o666)
            self._created = destination
        _fill(self._descriptor, self._product)

    def _link(self) -> bool:
        """Link the file to its name; False if it has to be written into the existing file instead."""
        destination = self._product.destination
        os.utime(self._descriptor)  # a product committed later must not be older
        for _ in range(TRIES):
            if self._product.unlink_first:
                _succeeds(os.unlink, destination)
            try:
                # Only with src_dir_fd, which the absolute path makes irrelevant, does Python follow the link.
                path = f"/proc/self/fd/{self._descriptor}"
                os.link(path, destination, src_dir_fd=self._descriptor)
                return True
            except FileExistsError:
                if not self._product.unlink_first:
                    return False
            except OSError:
                return False
        return False

    def _open_existing(self) -> None:
        """Open the file as nvcc's tools do, so that the kernel refuses whatever it would refuse them."""
        destination = self._product.destination
        created = "" if os.path.exists(destination) else os.path.realpath(destination)
        flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        self._descriptor = os.open(destination, flags, 0o666)
        self._before, self._created = os.fstat(self._descriptor), created
        if not stat.S_ISREG(self._before.st_mode) or self._is_stream(self._before):
            self._before = None
            raise OSError("a product that is no regular file, or one of our streams")
        size = len(self._product.content)
        if size > min(self._before.st_size, self._before.st_blocks * BLOCK):
            os.posix_fallocate(self._descriptor, 0, size)

    def _is_stream(self, file: os.stat_result) -> bool:
        """Whether it is our standard output or error: its text interleaves with that of nvcc's tools."""
        for number in (1, 2):
            try:
                if number != self._descriptor and os.path.samestat(os.fstat(number), file):
                    return True
            except OSError:  # it is closed
                continue
        return False


def _succeeds(action: Callable[[Any], object], argument: object) -> bool:
    try:
        action(argument)
    except OSError:
        return False
    return True


def _fill(descriptor: int, product: Product) -> None:
    """Write the content into a file, or clone the blob if the file system can; raises OSError."""
    content = product.content
    if len(content) < WORTH_CLONING or not _clone(product.raw_blob, descriptor, content):
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _clone(source: str, target: int, content: bytes) -> bool:
    """Share the blob's blocks (copy on write) instead of copying them; False if that is impossible.

    The clone is compared with the content: an older blob of the same name may be damaged. Most file systems
    cannot clone, and fail before anything is read. A blob may end in a checksum, hence the truncation.
    """
    import fcntl

    ficlone = 0x40049409
    if not source:
        return False
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(target, ficlone, descriptor)
        finally:
            os.close(descriptor)
        os.ftruncate(target, len(content))
        return os.pread(target, len(content), 0) == content
    except OSError:
        return False


def rule(entered: Sequence[tuple[bytes, bool]], invocation: Invocation) -> bytes:
    """The depfile of a call whose passes entered these files, each with whether it is a system header."""
    wanted = invocation.dependencies
    assert wanted is not None
    # A file may be entered both as a system header and as another.
    files = list(dict.fromkeys(name for name, is_system in entered if not (is_system and wanted.omit_system)))
    chosen = wanted.targets[-1] if wanted.targets else invocation.output or None
    return render(target(entered[0][0], chosen, invocation.output_directory), files, wanted.phony)


def target(source: bytes, chosen: str | None, directory: str) -> bytes:
    """The target of the rule: the value of -MT or -o, else the object's name made from the source's.

    That is `a.o` for -ptx and -cubin, too. -odir is prepended verbatim, even to an absolute path.
    """
    base = os.path.splitext(os.path.basename(source))[0]
    name = base + b".o" if chosen is None else os.fsencode(chosen)
    return os.fsencode(directory) + b"/" + name if directory else name


def render(target: bytes, files: Sequence[bytes], phony: bool) -> bytes:
    """The make rule: blanks are escaped in names, not in the target. The source comes first, as typed."""
    listed = [*files[:1], *map(_as_listed, files[1:])]
    escaped = [name.replace(b" ", b"\\ ") for name in listed]
    text = target + b" : " + b" \\\n    ".join(escaped) + b"\n"
    if phony:
        text += b"".join(b"\n" + name + b":\n" for name in escaped[1:])
    return text


def _as_listed(name: bytes) -> bytes:
    """A header's name as nvcc reads it from a line marker, whose escapes it does not understand.

    Each backslash becomes a slash, though the marker doubles them, and a quote ends the name.
    """
    before_quote, quote, _ = name.partition(b'"')
    return before_quote.replace(b"\\", b"/") + (b"\\" if quote else b"")


class Answer:
    """A result with the output names of one call."""

    __slots__ = ("dependency_file", "products", "result", "rule", "sources")

    def __init__(self, result: Result) -> None:
        self.result = result
        # (destination, digest of the content, whether an existing file is unlinked first); the destination
        # of a query may be STANDARD_OUTPUT.
        self.products: list[tuple[str, str, bool]] = []
        self.dependency_file = ""
        self.rule: bytes | None = None  # the depfile's content, None if the call requests none
        self.sources: list[str] = []  # the inputs as typed

    @property
    def is_of_query(self) -> bool:
        """Whether the call compiles nothing, so that no stage is saved."""
        return not self.result.stages


def restore(answer: Answer, cache: Store) -> str:
    """Write the products and the depfile; text for standard output is put into the answer's result.

    LOST, with nothing written, if a blob is missing; UNWRITABLE if nvcc should run and report why.
    """
    wanted = []
    if answer.rule is not None:
        wanted.append(Product(answer.dependency_file, answer.rule))
    contents = cache.read_blobs(digest for _, digest, _ in answer.products)
    for (destination, digest, unlink_first), content in zip(answer.products, contents, strict=True):
        if content is None:
            return LOST
        if destination == STANDARD_OUTPUT:
            answer.result.stdout = content
            continue
        wanted.append(Product(destination, content, cache.path(store.BLOB, digest), unlink_first))
    try:
        write_all(wanted)
    except (OSError, ValueError):
        return UNWRITABLE
    return RESTORED
