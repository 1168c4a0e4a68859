"""Restores the outputs of a call, each product whole or not at all, and writes its depfile.

Part of the hot path. The result on disk is what nvcc would have left: the depfile first, since nvcc writes it
before it compiles, then the products. gas unlinks an existing object that is not empty and creates a new one;
nvcc and its other tools write into an existing file, which keeps its inode, mode and hard links. So do we.
A new file has no name (O_TMPFILE) until it is complete, and disappears with its process, however that ends;
on a file system without such files, such as NFS, it has a temporary name. A file that was overwritten in part
is removed.

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

    Raises OSError, also if a destination is not a regular file, or ValueError for an invalid name; the
    product that failed is then as it was, or does not exist.
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
    try:
        old = os.stat(product.destination)
    except FileNotFoundError:
        old = None
    if old and not stat.S_ISREG(old.st_mode):
        raise OSError("a product that is not a regular file")
    is_replaced = old is not None and product.unlink_first and old.st_size > 0  # the condition of binutils
    if old and not is_replaced:
        _overwrite(product)
    else:
        _write_new(product, is_replaced)


def _write_new(product: Product, is_replaced: bool) -> None:
    """Write a new file; an old one is unlinked last. It is an error if another process has just made one."""
    destination, flags, name = product.destination, os.O_RDWR | os.O_CLOEXEC, ""
    try:
        descriptor = os.open(os.path.dirname(destination) or ".", flags | os.O_TMPFILE, 0o666)
    except OSError:
        name = f"{destination}.{os.getpid()}"
        descriptor = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        _fill(descriptor, product)
        if is_replaced:
            os.unlink(destination)
        # Python follows the link only if src_dir_fd is given; with an absolute path, its value is irrelevant.
        os.link(name or f"/proc/self/fd/{descriptor}", destination, src_dir_fd=descriptor)
    finally:
        os.close(descriptor)
        if name:
            os.unlink(name)


def _overwrite(product: Product) -> None:
    """Write into an existing file, opened as nvcc's tools open it: if the kernel refuses that, so it did."""
    descriptor = os.open(product.destination, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _fill(descriptor, product)
        os.ftruncate(descriptor, len(product.content))
    except BaseException:
        untrusted.remove(os.path.realpath(product.destination))  # make must notice that the content is lost
        raise
    finally:
        os.close(descriptor)


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
    """The depfile of a call; its passes entered these files, each with whether it is a system header."""
    wanted = invocation.dependencies
    assert wanted is not None
    # A file may be entered both as a system header and as an ordinary one.
    files = list(dict.fromkeys(name for name, is_system in entered if not (is_system and wanted.omit_system)))
    chosen = wanted.targets[-1] if wanted.targets else invocation.output or None
    return render(target(entered[0][0], chosen, invocation.output_directory), files, wanted.phony)


def target(source: bytes, chosen: str | None, directory: str) -> bytes:
    """The target of the rule: the value of -MT or -o, else the object's name, derived from the source's.

    That is `a.o`, even with -ptx and -cubin. -odir is prepended verbatim, even to an absolute path.
    """
    base = os.path.splitext(os.path.basename(source))[0]
    name = base + b".o" if chosen is None else os.fsencode(chosen)
    return os.fsencode(directory) + b"/" + name if directory else name


def render(target: bytes, files: Sequence[bytes], phony: bool) -> bytes:
    """The make rule: blanks are escaped in names, but not in the target. The source comes first, as typed."""
    listed = [*files[:1], *map(_as_listed, files[1:])]
    escaped = [name.replace(b" ", b"\\ ") for name in listed]
    text = target + b" : " + b" \\\n    ".join(escaped) + b"\n"
    if phony:
        text += b"".join(b"\n" + name + b":\n" for name in escaped[1:])
    return text


def _as_listed(name: bytes) -> bytes:
    """A header's name as nvcc reads it from a line marker, whose escapes it does not understand.

    Each backslash becomes a slash, although the marker doubles them, and a quotation mark ends the name.
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
