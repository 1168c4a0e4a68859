"""Writes the outputs of a call as nvcc would: its depfile, and each product completely or not at all.

The depfile is written before the products, because nvcc writes it before it compiles. An existing object that
is not empty is unlinked and created anew, as by gas. Any other existing file is overwritten in place, so that
it keeps its inode, mode and hard links, as with nvcc and its other tools. A new file has no name (O_TMPFILE)
until it is complete, so that nothing remains of it if its process is killed. On file systems that do not
support O_TMPFILE, such as NFS, it has a temporary name. If overwriting a file fails, the file is removed.

The depfile of -MD and -MMD is generated for each call, because it contains the name of the call's output. Its
format is the same as with nvcc 11.8 to 13.5. passes.py decides which files it lists. Direct hits load this
module, so it is part of the hot path.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the module `signal` loads `enum`, which takes 3 ms
import os
import stat

from nvccache import outcomes
from nvccache.files import untrusted
from nvccache.records.output_names import STANDARD_OUTPUT
from nvccache.store import store
from nvccache.store.event_line import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvccache.commandline.invocation import Invocation
    from nvccache.records.record import Result
    from nvccache.store.store import Store


WORTH_CLONING = 1 << 20  # bytes; writing a smaller product is faster than importing fcntl to clone it
_STOP_SIGNALS = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM)
RESTORED, LOST, UNWRITABLE = "restored", "lost", "unwritable"


class Product:
    def __init__(
        self, destination: str, content: bytes, raw_blob: str = "", unlink_first: bool = False
    ) -> None:
        self.destination = destination
        self.content = content
        self.raw_blob = raw_blob  # the path of a blob to clone, which may be missing or damaged
        self.unlink_first = unlink_first  # whether an existing file is unlinked, as by gas


def write_all(products: Sequence[Product]) -> None:
    """Write products in the given order.

    Raises ValueError for an invalid name, and OSError if a product cannot be written or its destination is
    not a regular file. That product is then unchanged or does not exist.
    """
    # Signals are blocked, because nothing would clean up after a direct hit that a signal ends.
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
        raise OSError("an output file is not a regular file")
    is_replaced = old is not None and product.unlink_first and old.st_size > 0  # gas overwrites empty files
    if old and not is_replaced:
        _overwrite(product)
    else:
        _write_new(product, is_replaced)


def _write_new(product: Product, is_replaced: bool) -> None:
    """Write a new file; an existing file is unlinked when the new one is complete. Raises OSError."""
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
        # `src_dir_fd` makes Python follow the link in /proc. Its value is ignored for an absolute path.
        unnamed = None if name else descriptor
        os.link(name or f"/proc/self/fd/{descriptor}", destination, src_dir_fd=unnamed)
    finally:
        os.close(descriptor)
        if name:
            os.unlink(name)


def _overwrite(product: Product) -> None:
    """Overwrite an existing file, opened as by nvcc's tools, so that opening fails where they would fail."""
    descriptor = os.open(product.destination, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _fill(descriptor, product)
        os.ftruncate(descriptor, len(product.content))
    except BaseException:
        untrusted.remove(os.path.realpath(product.destination))  # so that make notices the loss
        raise
    finally:
        os.close(descriptor)


def _fill(descriptor: int, product: Product) -> None:
    """Clone a large blob if the file system can, or else write the content into a file; raises OSError."""
    content = product.content
    if len(content) < WORTH_CLONING or not _clone(product.raw_blob, descriptor, content):
        untrusted.write_all(descriptor, content)


def _clone(source: str, target: int, content: bytes) -> bool:
    """Share the blob's blocks (copy on write) instead of copying them; False if that is impossible.

    The clone is compared with the content, because the blob's file may be damaged. Most file systems cannot
    clone, and fail before anything is read. The clone is truncated to the content's length, because the
    blob's file may end with a checksum.
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
    """The depfile's content. `entered` has the files that were read, and whether each is a system header."""
    wanted = invocation.dependencies
    assert wanted is not None
    # The same file may be entered both as a system header and as another file.
    names = (name for name, is_system in entered if not (is_system and wanted.omit_system))
    files = list(dict.fromkeys(_as_typed(name, invocation.typed_paths) for name in names))
    chosen = wanted.targets[-1] if wanted.targets else invocation.output or None
    return render(target(entered[0][0], chosen, invocation.output_directory), files, wanted.phony)


def _as_typed(name: bytes, typed_paths: Mapping[bytes, bytes]) -> bytes:
    """The name that a file would have if nvcc had got the typed paths; absolute names are typed already."""
    place = name if typed_paths and name[:1] != b"/" else b""
    while place and place not in typed_paths:
        place = os.path.dirname(place)
    return typed_paths.get(place, place) + name[len(place) :]


def target(source: bytes, chosen: str | None, directory: str) -> bytes:
    """The depfile's target: the value of -MT or -o or, without these, the name of the source's object.

    For `a.cu`, that is `a.o` even with -ptx and -cubin. The value of -odir is put before the target, even
    before an absolute path.
    """
    base = os.path.splitext(os.path.basename(source))[0]
    name = base + b".o" if chosen is None else os.fsencode(chosen)
    return os.fsencode(directory) + b"/" + name if directory else name


def render(target: bytes, files: Sequence[bytes], phony: bool) -> bytes:
    """The depfile's text. As with nvcc, blanks in the target are not escaped, and the source is as typed."""
    listed = [*files[:1], *map(_as_listed, files[1:])]
    escaped = [name.replace(b" ", b"\\ ") for name in listed]
    text = target + b" : " + b" \\\n    ".join(escaped) + b"\n"
    if phony:
        text += b"".join(b"\n" + name + b":\n" for name in escaped[1:])
    return text


def _as_listed(name: bytes) -> bytes:
    """A header's name as nvcc writes it into a depfile.

    nvcc takes the name from a line marker of the preprocessor, but does not decode its escape sequences: each
    backslash becomes a slash, so an escaped backslash becomes two slashes. A quotation mark ends the name.
    """
    before_quote, quote, _ = name.partition(b'"')
    return before_quote.replace(b"\\", b"/") + (b"\\" if quote else b"")


class Answer:
    """A result, with the output names of the call that it answers."""

    def __init__(self, result: Result) -> None:
        self.result = result
        # (destination, digest of the content, whether an existing file is unlinked first). If a query prints
        # its output, the destination is STANDARD_OUTPUT.
        self.products: list[tuple[str, str, bool]] = []
        self.dependency_file = ""
        self.rule: bytes | None = None  # the depfile's content; None if the call requests no depfile
        self.sources: list[str] = []  # the inputs as typed

    @property
    def is_of_query(self) -> bool:
        """Whether the call compiles nothing, so that no stage is saved."""
        return not self.result.stages

    def event(self) -> Event:
        """The event of the hit, as far as it is the same each time the call is answered."""
        event = Event(outcomes.QUERY_HIT if self.is_of_query else outcomes.DIRECT_HIT)
        event.sources = self.sources
        event.product = next((os.path.abspath(name) for name, _, _ in self.products if name), "")
        event.tool_saved, event.replayed = self.result.seconds, self.result.stages
        return event


def restore(answer: Answer, cache: Store) -> str:
    """Write the depfile and the products; put text for standard output into the answer's result.

    Returns RESTORED; LOST if a blob is missing, so that nothing was written; or UNWRITABLE if an output could
    not be written.
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
