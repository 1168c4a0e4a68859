"""Restores the outputs of a call, each product whole or not at all, and writes its depfile.

Part of the hot path. The result on disk is what nvcc would have left: the depfile first, since nvcc writes it
before it compiles, then the products. gas unlinks an existing object that is not empty and creates a new one;
nvcc and its other tools write into an existing file, which keeps its inode, mode and hard links. The same
happens here, but a new file gets its name only once it is complete:

    no file             written without a name (O_TMPFILE), then linked
    unlinked first      the same, with the old file unlinked right before
    overwritten         in place, after its blocks have been reserved; a torn file is removed

An unnamed file disappears with its process, however that ends. On a file system without O_TMPFILE, such as
NFS, a new file is written under its name as nvcc writes it, and removed if that fails.

The depfile of -MD and -MMD is generated for each call, since it names the call's output. Its format was
compared with nvcc's on 11.8 to 13.5; passes.py decides which files it lists.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` itself loads enum, which costs 3 ms
import os
import stat

from nvccache.files import untrusted
from nvccache.records.output_names import STANDARD_OUTPUT
from nvccache.store import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

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

    Raises OSError, or ValueError for an invalid name; the product that failed is then left as it was, or
    removed, so that make notices. A destination that is no regular file, or is our standard output or error,
    is an error as well: left to nvcc.
    """
    # Nothing cleans up after a direct hit that is stopped by a signal.
    blocked = _signal.pthread_sigmask(_signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        for product in products:
            if product.destination != os.devnull:
                _write(product)
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, blocked)


def _write(product: Product) -> None:
    destination = product.destination
    try:
        old = os.stat(destination)
    except FileNotFoundError:
        old = None
    if old and not stat.S_ISREG(old.st_mode):
        raise OSError("a product that is no regular file")
    is_replaced = old is not None and product.unlink_first and old.st_size > 0  # the condition of binutils
    if is_replaced or (old is None and not os.path.islink(destination)):
        try:
            if _write_new(product):
                return
        except PermissionError:  # the directory is not writable: gas writes into the file then
            if not is_replaced:
                raise
    _overwrite(product)


def _write_new(product: Product) -> bool:
    """Write a new file; False if the content has to be written into an existing one instead."""
    destination, flags, is_named = product.destination, os.O_RDWR | os.O_CLOEXEC, False
    try:
        descriptor = os.open(os.path.dirname(destination) or ".", flags | os.O_TMPFILE, 0o666)
    except OSError:
        if product.unlink_first and os.path.lexists(destination):
            os.unlink(destination)
        descriptor = os.open(destination, flags | os.O_CREAT | os.O_EXCL, 0o666)
        is_named = True
    try:
        _fill(descriptor, product)
        return is_named or _link(descriptor, product)
    except BaseException:
        if is_named:
            untrusted.remove(destination)
        raise
    finally:
        os.close(descriptor)


def _link(descriptor: int, product: Product) -> bool:
    """Link a file without a name to its destination."""
    for _ in range(TRIES):
        if product.unlink_first:
            untrusted.remove(product.destination)
        try:
            # Only with src_dir_fd, which the absolute path makes irrelevant, does Python follow the link.
            os.link(f"/proc/self/fd/{descriptor}", product.destination, src_dir_fd=descriptor)
            return True
        except FileExistsError:
            if not product.unlink_first:
                return False
        except OSError:
            return False
    return False


def _overwrite(product: Product) -> None:
    """Write into an existing file, opened as by nvcc's tools: the kernel refuses what it refuses them."""
    path, size = os.path.realpath(product.destination), len(product.content)
    is_new, flags = not os.path.exists(path), os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(product.destination, flags, 0o666)
    is_torn = is_new
    try:
        old = os.fstat(descriptor)
        if not stat.S_ISREG(old.st_mode) or _is_stream(old, descriptor):
            raise OSError("a product that is no regular file, or one of our streams")
        if size > min(old.st_size, old.st_blocks * BLOCK):
            _reserve(descriptor, size, old)
        is_torn = True
        _fill(descriptor, product)
        os.ftruncate(descriptor, size)
    except BaseException:
        if is_torn:  # its old content is lost: make must notice
            untrusted.remove(path)
        raise
    finally:
        os.close(descriptor)


def _reserve(descriptor: int, size: int, old: os.stat_result) -> None:
    """Reserve blocks for a file's new content; if there is no room, it stays as it was. Raises OSError."""
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        os.ftruncate(descriptor, old.st_size)
        os.utime(descriptor, ns=(old.st_atime_ns, old.st_mtime_ns))
        raise


def _is_stream(file: os.stat_result, descriptor: int) -> bool:
    """Whether it is our standard output or error: its text interleaves with that of nvcc's tools."""
    for number in (1, 2):
        try:
            if number != descriptor and os.path.samestat(os.fstat(number), file):
                return True
        except OSError:  # it is closed
            continue
    return False


def _fill(descriptor: int, product: Product) -> None:
    """Write the content into a file, or clone the blob if the file system can; raises OSError."""
    content = product.content
    if len(content) < WORTH_CLONING or not _clone(product.raw_blob, descriptor, content):
        untrusted.write_all(descriptor, content)


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
