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

from nvccache import call_end, outcomes, real_nvcc
from nvccache.call_end import Began
from nvccache.config import Config, load
from nvccache.store.event_line import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from nvccache.compile.call import Report
    from nvccache.records.request import Request

_NO_FORMAT = 8  # ENOEXEC
_OBJECTS = 100_000  # of a miss between two collections; a small one makes fewer, most of them modules
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
# Not `disabled`, which means that nvccache does nothing, nor `nested`, whose outer call is counted.
_COUNTED_ASIDE = ("not_nvcc", "no_cache_directory")
_COMPILER_NAMES = ("nvcc", "cc", "c++", "gcc", "g++", "clang", "nvc", "icpx", "cl")


def main() -> int:
    """Do what this process was started for; the exit status, unless nvcc takes its place."""
    return role()()


def role() -> Callable[[], int]:
    """What this process was started for, to be called without arguments.

    A fault before that, as in what is imported, is left to the caller.
    """
    sys.unraisablehook = _end_if_interrupted
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


def _end_if_interrupted(unraisable: sys.UnraisableHookArgs) -> None:
    """End by a signal that came while a finalizer ran; Python would report it and go on."""
    fault = unraisable.exc_value
    if not isinstance(fault, KeyboardInterrupt) and not hasattr(fault, "signum"):  # process.Interrupted
        sys.__unraisablehook__(unraisable)
        return
    import signal

    from nvccache.machine import process

    process.die_of(getattr(fault, "signum", signal.SIGINT))


def _compile(typed: str, arguments: list[str]) -> int:
    try:
        status = _compile_or_become(typed, arguments)
    except KeyboardInterrupt:  # before a compile has begun, or after
        import signal

        from nvccache.machine import process

        process.die_of(signal.SIGINT)
        return 128 + signal.SIGINT
    # Nothing is left to clean up, and taking the interpreter down would cost as much as a hit.
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
    # Here, where a broken installation ends in the real nvcc.
    from nvccache.records import levels
    from nvccache.records.products import Answer
    from nvccache.records.request import Request

    began = Began(config)
    gc.disable()  # a hit makes a few thousand objects and needs all of them
    reason = _reason_to_stand_aside(typed or "nvcc", config, environ)
    if reason:
        if reason in _COUNTED_ASIDE:
            call_end.record_bypass(config, reason, arguments, began)
        return _become(nvcc, arguments, environ)
    request = Request(nvcc, arguments, environ, config)
    answer = levels.answer(request)
    if isinstance(answer, Answer):
        call_end.hand_over(answer, config, began)
        return _become(nvcc, arguments, environ)
    gc.set_threshold(_OBJECTS)
    gc.enable()
    if not answer:
        return _staged_compile(request, began)
    call_end.note_bypass(config, answer.reason, answer.detail, arguments, environ)
    call_end.record_bypass(config, answer.reason, arguments, began)
    return _become(nvcc, arguments, environ)


def _reason_to_stand_aside(typed: str, config: Config, environ: dict[str, str]) -> str:
    if config.disable:
        return "disabled"
    if real_nvcc.TRIED_VARIABLE in environ:
        return "nested"
    if "nvcc" not in os.path.basename(typed):
        return "not_nvcc"
    return "" if config.dir else "no_cache_directory"


def _staged_compile(request: Request, began: Began) -> int:
    from nvccache.machine import process

    process.raise_on_stop_signals()
    try:
        try:
            return _carry_out(request, began)
        finally:
            process.stop_as_usual()
    except process.Interrupted as stop:
        process.await_children()
        process.die_of(stop.signum)
        return 128 + stop.signum


def _carry_out(request: Request, began: Began) -> int:
    nvcc, arguments, environ, config = request.nvcc, request.arguments, request.environ, request.config
    report, sources = _make(request)
    if report.answer:
        call_end.hand_over(report.answer, config, began, report.remote)
        _become(nvcc, arguments, environ)
    event = call_end.event_of(report, sources, arguments, began)
    if report.leave_to_nvcc == "odd_failure":
        from nvccache.machine import process

        # Most likely nvcc will fail too: running it here, not in our place, lets us count what it was.
        status = process.run_through([nvcc, *arguments], request.guarded_environ)
        if status:
            event.outcome, event.reason = outcomes.FAILED, ""
        call_end.record(config, event, began)
        return _end_like(status)
    call_end.record(config, event, began)
    if report.leave_to_nvcc or not call_end.tell(report):
        _become(nvcc, arguments, environ)
    if report.to_send:
        _send(config, report.to_send, environ)
    return report.status


def _send(config: Config, items: list[tuple[str, str]], environ: dict[str, str]) -> None:
    """Queue new results for remotes. The call is over: after a fault nvcc must not run again."""
    try:
        from nvccache.remote import uploads

        uploads.send_soon(config, items, environ)
    except Exception as fault:
        call_end.note(config, f"nothing is sent: {type(fault).__name__}: {fault}")


def _make(request: Request) -> tuple[Report, list[str]]:
    """What became of a call, and its sources."""
    if not request.is_script:
        return _compiled(request), list(request.invocation.inputs)
    from nvccache.commandline import redaction
    from nvccache.compile import scripted_nvcc
    from nvccache.compile.call import Report

    behind = scripted_nvcc.carry_out(request)
    if isinstance(behind, Report):
        return behind, redaction.files_in(request.arguments)
    report = _compiled(behind)
    if report.status and request.is_waiting:
        report.leave_to_nvcc = "odd_failure"  # to which the script may have an answer
    return report, list(behind.invocation.inputs)


def _compiled(request: Request) -> Report:
    if request.program:
        from nvccache.compile import link_only

        linked = link_only.carry_out(request, request.program)
        if linked:
            return linked
    from nvccache.compile import pipeline
    from nvccache.explain.miss_reason import Explanation

    return pipeline.carry_out(request, Explanation(is_recaching=request.config.recache))


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
    call_end.record(config, Event(outcomes.FAULT), Began(config))


def _no_compiler(typed: str, configured: str, origin: str, environ: dict[str, str]) -> int:
    """Say why there is nothing to run, with the status that a shell has for it."""
    status, sentence = real_nvcc.why_none(typed, configured, origin, environ)
    call_end.write(2, os.fsencode(f"nvccache: {sentence}\n"))
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
        call_end.write(2, os.fsencode(f"nvccache: cannot run `{nvcc}`: {error.strerror}\n"))
        os._exit(126)


if __name__ == "__main__":
    sys.exit(main())
