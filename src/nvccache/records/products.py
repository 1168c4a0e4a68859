"""What a call gives, from products to diagnostics, and giving it: each product whole, or not at all.

Part of the hot path. What is given is what nvcc would have left: the dependency file first, since nvcc writes
it before it compiles, then the products. gas unlinks an object that is there, if it holds something, and
makes a new one; nvcc and its other tools write into an existing file, which keeps its inode, its mode and its
other names. The same is left behind here, but a new file gets its name only when all is in it:

    nothing there       written without a name (O_TMPFILE), then linked to its own
    unlinked first      the same, the old one being unlinked just before
    written into        in place, after its blocks have been reserved; a torn one is removed

A file without a name goes with its process, however that ends. A file system that has no such files gets
one next to the product, which is then renamed. Its name is made of the product's: what a killed process has
left goes when the product is made again.

The dependency file of -MD and -MMD is written anew for each call, since it names this call's output. Its form
was compared with nvcc's own on 11.8 to 13.5; passes.py decides which files it lists.
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

    from nvccache.commandline.invocation import Invocation
    from nvccache.records.record import Result
    from nvccache.store.store import Store


WORTH_CLONING = 1 << 20  # bytes; a smaller product is written faster than the means to clone it load
_LONGEST_STEM = 200  # bytes of the name of a file next to a product
BLOCK = 512  # what st_blocks counts
TRIES = 3  # others may make a file of the name that is just being given
_STOP_SIGNALS = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM)
GIVEN, LOST, UNWRITABLE = "given", "lost", "unwritable"


class Product:
    """What is to be given under a name."""

    __slots__ = ("content", "destination", "raw_blob", "unlink_first")

    def __init__(
        self, destination: str, content: bytes, raw_blob: str = "", unlink_first: bool = False
    ) -> None:
        self.destination = destination
        self.content = content
        self.raw_blob = raw_blob  # a file of the cache that may hold the same
        self.unlink_first = unlink_first  # an existing file is replaced, as gas does it


def deliver(products: Sequence[Product]) -> None:
    """Give these products, in this order.

    Raises OSError, or ValueError for a name that is none, with nothing given if there was no room for one.
    What is no regular file, a pipe or a device, and what is standard output or error, is left to nvcc, too.
    """
    pending: list[_Pending] = []
    # In a direct hit nothing else would put away what a signal leaves.
    blocked = _signal.pthread_sigmask(_signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        for product in products:
            pending.append(_Pending(product))
            pending[-1].prepare()
        for one in pending:
            one.commit()
    finally:
        for one in pending:
            one.close()
        _signal.pthread_sigmask(_signal.SIG_SETMASK, blocked)


class _Pending:
    """A product on its way: nothing of it is visible before `commit`, and nothing is left after `close`."""

    __slots__ = ("_before", "_created", "_descriptor", "_is_torn", "_product", "_temporary")

    def __init__(self, product: Product) -> None:
        self._product = product
        self._descriptor = -1
        self._temporary = ""  # the name of the new file, where it has to have one
        self._before: os.stat_result | None = None  # of the file that is going to be written into
        self._created = ""  # the path of that, if opening made it
        self._is_torn = False

    def prepare(self) -> None:
        """Have everything written, or room for it."""
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
        except PermissionError:  # nothing can be unlinked in this directory: gas writes into the file then
            self._open_existing()

    def commit(self) -> None:
        if self._before:
            self._write_into()
        elif not (self._rename() if self._temporary else self._link()):
            os.close(self._descriptor)
            self._descriptor = -1
            self._open_existing()
            self._write_into()

    def close(self) -> None:
        """Let go of what was not given."""
        if self._temporary:
            _succeeds(os.unlink, self._temporary)
        if self._before:
            self._undo(self._before)
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _write_new(self) -> None:
        directory = os.path.dirname(self._product.destination) or "."
        flags = os.O_RDWR | os.O_CLOEXEC
        try:
            self._descriptor = os.open(directory, flags | os.O_TMPFILE, 0o666)
        except OSError:
            self._make_beside(directory)
        _fill(self._descriptor, self._product)

    def _make_beside(self, directory: str) -> None:
        from nvccache.files import flock

        flags = os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        last = os.fsencode(os.path.basename(self._product.destination))[:_LONGEST_STEM]
        path = f"{directory}/.nvccache-{os.fsdecode(last)}"
        try:
            _remove_if_left(path)
            self._descriptor = os.open(path, flags, 0o666)
        except OSError:  # another process is making the same
            path += f"-{os.urandom(8).hex()}"
            self._descriptor = os.open(path, flags, 0o666)
        self._temporary = path
        _succeeds(lambda _: flock.take(self._descriptor), path)

    def _link(self) -> bool:
        """Give the file its name; False where it can only be written into what has that name."""
        destination = self._product.destination
        os.utime(self._descriptor)  # what is given later must not be older
        for _ in range(TRIES):
            if self._product.unlink_first:
                _succeeds(os.unlink, destination)
            try:
                # Only with a directory, which does not count here, does Python have the link followed.
                path = f"/proc/self/fd/{self._descriptor}"
                os.link(path, destination, src_dir_fd=self._descriptor)
                return True
            except FileExistsError:
                if not self._product.unlink_first:
                    return False
            except OSError:
                return False
        return False

    def _rename(self) -> bool:
        os.utime(self._descriptor)
        if not _succeeds(lambda path: os.rename(path, self._product.destination), self._temporary):
            return False
        self._temporary = ""
        return True

    def _open_existing(self) -> None:
        """Open the file as nvcc's tools do, so that the kernel refuses what it would refuse them."""
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
        """Whether it is standard output or error: its text lies between what nvcc's tools write."""
        for number in (1, 2):
            try:
                if number != self._descriptor and os.path.samestat(os.fstat(number), file):
                    return True
            except OSError:  # it is closed
                continue
        return False

    def _write_into(self) -> None:
        self._is_torn = True
        _fill(self._descriptor, self._product)
        os.ftruncate(self._descriptor, len(self._product.content))
        self._before = None

    def _undo(self, before: os.stat_result) -> None:
        """Have the file as it was before; where that is lost there must be none, for make to see it."""
        if self._created or self._is_torn:
            _succeeds(os.unlink, self._created or self._product.destination)
            return
        if os.fstat(self._descriptor).st_size != before.st_size:
            _succeeds(lambda _: os.ftruncate(self._descriptor, before.st_size), "")
        if os.fstat(self._descriptor).st_mtime_ns != before.st_mtime_ns:  # also of what found no room
            times = (before.st_atime_ns, before.st_mtime_ns)
            _succeeds(lambda _: os.utime(self._descriptor, ns=times), "")


def _succeeds(action: Callable[[str], object], path: str) -> bool:
    try:
        action(path)
    except OSError:
        return False
    return True


def _remove_if_left(path: str) -> None:
    """Remove what a killed process was making, which nobody holds the lock of; raises OSError."""
    from nvccache.files import flock

    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and flock.take(descriptor):
            os.unlink(path)
    finally:
        os.close(descriptor)


def _fill(descriptor: int, product: Product) -> None:
    """Have the content in a file, as a clone of the blob where the file system can; raises OSError."""
    content = product.content
    if len(content) < WORTH_CLONING or not _clone(product.raw_blob, descriptor, content):
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def _clone(source: str, target: int, content: bytes) -> bool:
    """Share the blob's blocks (copy on write) instead of copying them; False where that cannot be.

    What was cloned is compared: content that was just made says nothing of an older blob of its name. Most
    file systems cannot clone, and say so before anything is read. Behind its content a blob may have a sum.
    """
    import fcntl

    ficlone = 0x40049409
    if not source:
        return False
    try:
        # A link or a pipe that somebody has put there is no blob.
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return False
            fcntl.ioctl(target, ficlone, descriptor)
        finally:
            os.close(descriptor)
        os.ftruncate(target, len(content))
        return os.pread(target, len(content), 0) == content
    except OSError:
        return False


def rule(entered: Sequence[tuple[bytes, bool]], invocation: Invocation) -> bytes:
    """The dependency file of a call whose passes list these files.

    With each file stands whether it is a system header.
    """
    wanted = invocation.dependencies
    assert wanted is not None
    # A name may be listed twice, as a system header's and not.
    files = list(dict.fromkeys(name for name, is_system in entered if not (is_system and wanted.omit_system)))
    chosen = wanted.targets[-1] if wanted.targets else invocation.output or None
    return render(target(entered[0][0], chosen, invocation.output_directory), files, wanted.phony)


def target(source: bytes, chosen: str | None, directory: str) -> bytes:
    """What the rule is for: the value of -MT or -o, else the source's name as that of an object.

    That is `a.o` for -ptx and -cubin, too. -odir goes in front as it is, even of an absolute path.
    """
    base = os.path.splitext(os.path.basename(source))[0]
    name = base + b".o" if chosen is None else os.fsencode(chosen)
    return os.fsencode(directory) + b"/" + name if directory else name


def render(target: bytes, files: Sequence[bytes], phony: bool) -> bytes:
    """The make rule: blanks are escaped in names, not in the target.

    The source, the first file, stands there as it was typed.
    """
    listed = [*files[:1], *map(_as_listed, files[1:])]
    escaped = [name.replace(b" ", b"\\ ") for name in listed]
    text = target + b" : " + b" \\\n    ".join(escaped) + b"\n"
    if phony:
        text += b"".join(b"\n" + name + b":\n" for name in escaped[1:])
    return text


def _as_listed(name: bytes) -> bytes:
    """The name of a header as nvcc takes it from the marker, whose escapes it does not understand.

    There two backslashes stand for one, which becomes a slash, and a quote ends the name.
    """
    before_quote, quote, _ = name.partition(b'"')
    return before_quote.replace(b"\\", b"/") + (b"\\" if quote else b"")


class Answer:
    """A result of a call under the names that this call has for what it makes."""

    __slots__ = ("dependency_file", "intermediates", "products", "result", "rule", "sources")

    def __init__(self, result: Result) -> None:
        self.result = result
        # (destination, digest of the content, whether an existing file is unlinked first); of a query the
        # destination may be STANDARD_OUTPUT.
        self.products: list[tuple[str, str, bool]] = []
        self.dependency_file = ""
        self.rule: bytes | None = None  # the dependency file's content, None where the call asks for none
        # Where a host's link has to follow (link_only.py): what it reads of the scratch directory, (base
        # name, digest).
        self.intermediates: list[tuple[str, str]] = []
        self.sources: list[str] = []  # the inputs as they were typed

    @property
    def is_of_query(self) -> bool:
        """Whether no stage is saved: nvcc was not asked to compile."""
        return not self.result.stages


def give(answer: Answer, cache: Store) -> str:
    """Write the products and the dependency file; what goes to standard output is put into the answer.

    LOST, with nothing written, if the store does not have it all; UNWRITABLE where nvcc should report why.
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
        deliver(wanted)
    except (OSError, ValueError):
        return UNWRITABLE
    return GIVEN
