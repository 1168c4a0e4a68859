"""The entry of every call: which role this program plays, and the one place that catches a fault.

    nvccache COMMAND ...      a command of our own (cli/)
    nvccache nvcc ARGS ...    launcher
    nvcc ARGS ...             masquerade: installed as `nvcc`, the real one is found behind it

Whatever goes wrong on the way ends in the real nvcc, run in this process's place with the very same
arguments.
"""

from __future__ import annotations

import gc
import os
import sys
import time

from nvccache import outcomes, real_nvcc
from nvccache.config import Config, load
from nvccache.machine.callers import Callers
from nvccache.store import directory, event_line
from nvccache.store.event_line import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from nvccache.compile.call import Report, Request
    from nvccache.records.call_result import CallResult
    from nvccache.records.levels import Outcome
    from nvccache.records.scripted import Script
    from nvccache.store.event_line import RemoteUse

_NO_FORMAT = 8  # ENOEXEC
_OBJECTS = 100_000  # of a miss between two collections; a small one makes fewer, most of them modules
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
# Not `disabled`, which means that nvccache does nothing, nor `nested`, whose outer call is counted.
_COUNTED_ASIDE = ("not_nvcc", "no_cache_directory")
_COMPILER_NAMES = ("nvcc", "cc", "c++", "gcc", "g++", "clang", "nvc", "icpx", "cl")


class _Began:
    """When a call began, by the monotonic clock, and who had called it then."""

    __slots__ = ("at", "callers")

    def __init__(self, config: Config) -> None:
        self.at = time.monotonic()
        self.callers = Callers() if config.counts_calls else None


def main() -> int:
    """Do what this process was started for; the exit status, unless nvcc takes its place."""
    return role()()


def role() -> Callable[[], int]:
    """What this process was started for, to be called without arguments.

    A fault before that, as in what is imported, is the business of whoever started this.
    """
    sys.unraisablehook = _end_if_told_to
    _undo_locale_coercion()
    name = os.path.basename(sys.argv[0])
    if _is_name_of_nvcc(name):
        return lambda: _compile("", sys.argv[1:])
    argv = sys.argv[1:]
    while argv and _is_launcher(argv[0]):  # set twice, by a build and by its environment
        del argv[0]
    if argv and "/" in argv[0] and argv[0][0] != "-":  # as CMake calls us; no command has a slash
        return lambda: _compile(argv[0], argv[1:])
    from nvccache.cli.names import COMMANDS

    if not argv or argv[0] in COMMANDS or not _is_compiler(argv[0]):
        from nvccache import cli

        sys.argv[1:] = argv
        return cli.main
    return lambda: _compile(argv[0], argv[1:])


def _is_name_of_nvcc(name: str) -> bool:
    return name.startswith("nvcc") and not name.startswith("nvccache")


def _is_launcher(word: str) -> bool:
    """Whether a word names nvccache itself, and not an nvcc that leads to it."""
    if _is_name_of_nvcc(os.path.basename(word)) or word.startswith("-"):
        return False
    return real_nvcc.is_ours(word) if "/" in word else word in real_nvcc.OWN_NAMES


def _undo_locale_coercion() -> None:
    """Give children the locale that we were given: without one Python sets LC_CTYPE, also with -I (PEP 538).

    gcc would write other quotation marks, and the keys would hold another locale than the caller's.
    """
    coerced = os.environ.get("LC_CTYPE")
    if coerced not in _COERCED or os.environ.get("LC_ALL"):
        return
    try:
        with open("/proc/self/environ", "rb") as stream:  # as the kernel passed it on
            given = stream.read().split(b"\0")
    except OSError:  # no /proc: Python goes over to UTF-8 for the same reason
        given = [] if sys.flags.utf8_mode else [b"LC_CTYPE=" + os.fsencode(coerced)]
    for entry in given:
        if entry.startswith(b"LC_CTYPE="):
            os.environ["LC_CTYPE"] = os.fsdecode(entry.partition(b"=")[2])
            return
    del os.environ["LC_CTYPE"]


def _end_if_told_to(unraisable: sys.UnraisableHookArgs) -> None:
    """End by a signal that came while a finalizer ran; Python would tell of it and go on."""
    told = unraisable.exc_value
    if not isinstance(told, KeyboardInterrupt) and not hasattr(told, "signum"):  # process.Interrupted
        sys.__unraisablehook__(unraisable)
        return
    import signal

    from nvccache.machine import process

    process.die_of(getattr(told, "signum", signal.SIGINT))


def _compile(typed: str, arguments: list[str]) -> int:
    try:
        status = _compile_or_become(typed, arguments)
    except KeyboardInterrupt:  # before a compile has begun, or after
        import signal

        from nvccache.machine import process

        process.die_of(signal.SIGINT)
        return 128 + signal.SIGINT
    # Nothing is left to put away, and taking the interpreter down would cost as much as a hit.
    os._exit(status)


def _is_compiler(word: str) -> bool:
    if word.startswith("-"):
        return False
    if "nvcc" in word:
        return True
    if not any(part in word for part in _COMPILER_NAMES):
        return False
    from nvccache.cli import names  # `cleen` has the name of a compiler in it

    return not names.is_command(word, os.environ)


def _compile_or_become(typed: str, arguments: list[str]) -> int:
    environ = dict(os.environ)
    config = None
    nvcc = ""
    try:
        config = load(environ)
        nvcc = real_nvcc.find(typed, config.nvcc, environ)
        if not nvcc:
            return _no_compiler(typed, config.nvcc, config.origins["nvcc"], environ)
        return _cached_compile(nvcc, typed, arguments, config, environ)
    except Exception as fault:
        if config.strict if config else environ.get("NVCCACHE_STRICT", "") not in ("", "0"):
            raise
        configured = config.nvcc if config else environ.get("NVCCACHE_NVCC", "")
        nvcc = nvcc or real_nvcc.find(typed, configured, environ)
        if not nvcc:
            return _no_compiler(typed, configured, "NVCCACHE_NVCC", environ)
        if config:
            import contextlib

            with contextlib.suppress(Exception):  # what is missing may be what this needs
                _report_fault(config, fault, nvcc, arguments, environ)
        _become(nvcc, arguments, environ)


def _cached_compile(
    nvcc: str, typed: str, arguments: list[str], config: Config, environ: dict[str, str]
) -> int:
    from nvccache.records import levels  # here, where a broken installation ends in the real nvcc

    began = _Began(config)
    gc.disable()  # a hit makes a few thousand objects and needs all of them
    reason = _reason_to_stand_aside(typed or "nvcc", config, environ)
    if reason:
        if reason in _COUNTED_ASIDE:
            _record_bypass(config, reason, arguments, began)
        return _become(nvcc, arguments, environ)
    outcome = levels.answer(nvcc, arguments, config, environ)
    if outcome.answer and not _hand_over(outcome.answer, config, began):
        return _become(nvcc, arguments, environ)
    gc.set_threshold(_OBJECTS)
    gc.enable()
    if not outcome.bypass:
        return _staged_compile(_request(nvcc, arguments, config, environ, outcome), config, began)
    _log_bypass(config, outcome.bypass.reason, outcome.bypass.detail, arguments, environ)
    _record_bypass(config, outcome.bypass.reason, arguments, began)
    return _become(nvcc, arguments, environ)


def _request(
    nvcc: str, arguments: list[str], config: Config, environ: dict[str, str], outcome: Outcome
) -> Request | Script:
    """A call that no record answers; of a script it is still to be seen what it becomes."""
    from nvccache.compile.call import Request
    from nvccache.records.scripted import Script

    if not outcome.invocation:
        return Script(nvcc, arguments, environ, outcome.terminal)
    guarded = real_nvcc.guarded(environ, nvcc)
    return Request(
        nvcc,
        tuple(arguments),
        outcome.invocation,
        environ,
        guarded,
        config,
        outcome.terminal,
        outcome.program,
    )


def _hand_over(found: CallResult, config: Config, began: _Began, remote: RemoteUse | None = None) -> bool:
    """Finish a direct hit and end; false where the answer to a query could not be written."""
    is_told = found.is_of_query and _tell(found.stdout, found.stderr)
    event = Event(outcomes.DIRECT_HIT)
    if is_told:
        event = Event(outcomes.QUERY_HIT)
    elif found.is_of_query:
        _record(config, Event(outcomes.BYPASS, "query_streams"), began)
        return False
    event.remote = remote
    event.tool_saved, event.wall_saved = found.seconds_saved, found.wall_seconds
    event.sources, event.replayed = found.sources, found.stages
    named = found.products[0][0] if found.products else ""
    event.product = os.path.abspath(named) if named else ""
    _log(config, f"{event.outcome.replace('_', ' ')} {event.product}")
    _record(config, event, began)
    if not is_told:
        _write(1, found.stdout)
        _write(2, found.stderr)
    os._exit(0)


def _tell(stdout: bytes, stderr: bytes) -> bool:
    """Write the answer to a query; false where nvcc has to, for it fails in its own way."""
    from nvccache.machine import streams

    before = streams.size_and_place() if stdout else None
    if not _write(1, stdout):
        streams.take_back(before)
        return False
    _write(2, stderr)
    return True


def _product_named_in(arguments: list[str]) -> str:
    """What -o names, for `nvccache explain`: no more than a guess for a call that is not understood."""
    for index, word in enumerate(arguments[:-1]):
        if word in ("-o", "--output-file"):
            return os.path.abspath(arguments[index + 1])
    return ""


def _reason_to_stand_aside(typed: str, config: Config, environ: dict[str, str]) -> str:
    if config.disable:
        return "disabled"
    if real_nvcc.TRIED_VARIABLE in environ:
        return "nested"
    if "nvcc" not in os.path.basename(typed):
        return "not_nvcc"
    return "" if config.dir else "no_cache_directory"


def _staged_compile(typed: Request | Script, config: Config, began: _Began) -> int:
    from nvccache.machine import process

    process.raise_on_stop_signals()
    try:
        try:
            return _carry_out(typed, config, began)
        finally:
            process.stop_as_usual()
    except process.Interrupted as stop:
        process.await_children()
        process.die_of(stop.signum)
        return 128 + stop.signum


def _carry_out(typed: Request | Script, config: Config, began: _Began) -> int:
    nvcc, arguments, environ = typed.nvcc, list(typed.arguments), typed.environ
    report, sources = _make(typed, config)
    if report.answer and not _hand_over(report.answer, config, began, report.remote):
        _become(nvcc, arguments, environ)
    record = Event(outcomes.BYPASS)
    record.sources = sources
    record.product = os.path.abspath(report.products[0]) if report.products else _product_named_in(arguments)
    record.store_fault, record.remote = report.store_fault, report.remote
    if report.leave_to_nvcc == "odd_failure":
        from nvccache.machine import process

        # Most likely nvcc will fail too: running it here, not in our place, lets us count what it was.
        status = process.run_through([nvcc, *arguments], real_nvcc.guarded(environ, nvcc))
        record.outcome = outcomes.FAILED if status else outcomes.BYPASS
        record.reason = "" if status else report.leave_to_nvcc
        _record(config, record, began)
        return _end_like(status)
    if report.leave_to_nvcc:
        record.reason = report.leave_to_nvcc
        _record(config, record, began)
        _become(nvcc, arguments, environ)
    record.outcome = report.outcome
    record.stages, record.cause = report.stages, report.cause
    for stage in record.stages if report.began else ():
        stage.start += report.began - began.at
    record.reason = outcomes.LINKED if report.is_linked else ""
    record.tool_saved = report.tool_saved
    record.wall_saved = report.wall_saved
    _record(config, record, began)
    if report.is_query and not _tell(report.stdout, report.stderr):
        _become(nvcc, arguments, environ)
    if not report.is_query:
        _write(1, report.stdout)
        _write(2, report.stderr)
    if report.to_send:
        _send(config, report.to_send, environ)
    return report.status


def _send(config: Config, items: list[tuple[str, str]], environ: dict[str, str]) -> None:
    """Have remotes told of what was made. The call is over: no fault may have nvcc do it again."""
    try:
        from nvccache.remote import uploads

        uploads.send_soon(config, items, environ)
    except Exception as fault:
        _log(config, f"nothing is sent: {type(fault).__name__}: {fault}")


def _make(typed: Request | Script, config: Config) -> tuple[Report, list[str]]:
    """What became of a call, and its sources."""
    from nvccache.compile.call import Request

    if isinstance(typed, Request):
        return _compiled(typed, config), list(typed.invocation.inputs)
    from nvccache.commandline import redaction
    from nvccache.compile import scripted_nvcc

    behind = scripted_nvcc.carry_out(typed, config)
    if not isinstance(behind, Request):
        return behind, redaction.files_in(typed.arguments)
    report = _compiled(behind, config)
    if report.status and typed.is_waiting:
        report.leave_to_nvcc = "odd_failure"  # to which the script may have an answer
    return report, list(behind.invocation.inputs)


def _compiled(request: Request, config: Config) -> Report:
    if request.program:
        from nvccache.compile import link_only

        linked = link_only.carry_out(request, request.program, config)
        if linked:
            return linked
    from nvccache.compile import pipeline
    from nvccache.explain.miss_reason import Explanation

    return pipeline.carry_out(request, config, Explanation(is_recaching=config.recache))


def _log(config: Config, message: str) -> None:
    if config.log:
        from nvccache import log

        log.write(config.log, message)


def _log_bypass(
    config: Config, reason: str, detail: str, arguments: list[str], environ: dict[str, str]
) -> None:
    if config.log:
        from nvccache.commandline import redaction

        _log(config, f"bypass {reason} {redaction.hide(detail, arguments, environ)}")


def _record_bypass(config: Config, reason: str, arguments: list[str], began: _Began) -> None:
    event = Event(outcomes.BYPASS, reason)
    event.product = _product_named_in(arguments)
    if config.counts_calls:
        from nvccache.commandline import redaction

        event.sources = redaction.files_in(arguments)
    _record(config, event, began)


def _record(config: Config, event: Event, began: _Began) -> None:
    """Tell the event log what became of a call."""
    if config.problems and config.log:
        from nvccache import log

        log.write(config.log, *[f"wrong setting: {text}" for text in log.sentences(config)])
    if began.callers:
        event.wrong_settings = config.wrong_settings
        event.seconds = time.monotonic() - began.at
        root = directory.Directory(config.journal_root, config.umask)
        event.build = began.callers.build
        event.jobs = began.callers.jobs(event_line.jobs_seen(root, event.build) if event.build else 0)
        event.wall_saved = (event.wall_saved - event.seconds) / event.jobs
        event.started = time.time() - event.seconds
        event.directory = _working_directory()
        event_line.append(root, event)
        if event_line.is_large(root):
            from nvccache.store import event_totals

            event_totals.fold(root)


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def _report_fault(
    config: Config, fault: Exception, nvcc: str, arguments: list[str], environ: dict[str, str]
) -> None:
    if config.log:
        import traceback

        from nvccache import __version__, log
        from nvccache.commandline import redaction

        text = redaction.hide("".join(traceback.format_exception(fault)), arguments, environ)
        line = redaction.line(arguments)
        log.write(config.log, f"fault in nvccache {__version__} for {nvcc} {line}", *text.splitlines())
    _record(config, Event(outcomes.FAULT), _Began(config))


def _no_compiler(typed: str, configured: str, origin: str, environ: dict[str, str]) -> int:
    """Say why there is nothing to run, with the status that a shell has for it."""
    status, sentence = real_nvcc.why_none(typed, configured, origin, environ)
    _write(2, os.fsencode(f"nvccache: {sentence}\n"))
    return status


def _end_like(status: int) -> int:
    if status < 0:
        from nvccache.machine import process

        process.die_of(-status)
    return status


def _become(nvcc: str, arguments: list[str], environ: dict[str, str]) -> NoReturn:
    """Let nvcc take the place of this process. Python ignores SIGPIPE; nvcc must not inherit that."""
    import signal

    for signum in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signum in (signal.SIGPIPE, signal.SIGXFSZ) or callable(signal.getsignal(signum)):
            signal.signal(signum, signal.SIG_DFL)
    environ = real_nvcc.guarded(environ, nvcc)
    try:
        try:
            os.execve(nvcc, [nvcc, *arguments], environ)
        except OSError as error:
            if error.errno != _NO_FORMAT:
                raise
            os.execve("/bin/sh", ["sh", nvcc, *arguments], environ)  # a script without #!, as shells start it
    except OSError as error:
        _write(2, os.fsencode(f"nvccache: cannot run `{nvcc}`: {error.strerror}\n"))
        os._exit(126)


def _write(descriptor: int, content: bytes) -> bool:
    """Write everything; false if that failed."""
    while content:
        try:
            content = content[os.write(descriptor, content) :]
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            return False  # nobody reads any more; nvcc would not mind either when it compiles
    return True


if __name__ == "__main__":
    sys.exit(main())
