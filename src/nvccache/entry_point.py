"""The entry point of every call: selects the role of this process, and catches all faults.

    nvccache COMMAND ...      a command of nvccache (cli/)
    nvccache nvcc ARGS ...    a compile, with nvccache as a launcher
    nvcc ARGS ...             a compile through a link named `nvcc`; the real nvcc is further on PATH

After any fault the real nvcc replaces this process (exec), with the same arguments.
"""

from __future__ import annotations

import gc
import os
import sys
import time

from nvccache import call_end, nvcc_lookup, outcomes
from nvccache.config import Config, load
from nvccache.store.event_line import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from nvccache.records.direct_hit import Request

_NO_FORMAT = 8  # ENOEXEC
_GC_THRESHOLD = 100_000  # objects; a small miss creates fewer, so that no garbage is collected
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
# Not counted: `disabled`, for which nvccache must do nothing, and `nested`, since the outer call counts.
_COUNTED_BYPASSES = ("not_nvcc", "no_cache_directory", "scripted_nvcc")
_COMPILER_NAMES = ("cc", "c++", "g++", "cl", "nvc", "icpx")  # a compiler's name contains one of these


def main() -> int:
    """Run the role of this process; returns its exit status, unless nvcc replaces it."""
    return role()()


def role() -> Callable[[], int]:
    """The function for the role of this process; raises what an import raises."""
    sys.unraisablehook = _end_if_interrupted
    _undo_locale_coercion()
    name = os.path.basename(sys.argv[0])
    if _is_name_of_nvcc(name):
        return lambda: _compile("", sys.argv[1:])
    argv = sys.argv[1:]
    while argv and _is_launcher(argv[0]):  # a build and its environment may both set a launcher
        del argv[0]
    if argv and "/" in argv[0] and argv[0][0] != "-":  # a compiler's path, such as from CMake
        return lambda: _compile(argv[0], argv[1:])
    from nvccache.cli import COMMANDS

    if not argv or argv[0] in COMMANDS or not _is_compiler(*argv):
        from nvccache import cli

        sys.argv[1:] = argv
        return cli.main
    return lambda: _compile(argv[0], argv[1:])


def _is_name_of_nvcc(name: str) -> bool:
    return name.startswith("nvcc") and not name.startswith("nvccache")


def _is_launcher(argument: str) -> bool:
    """Whether an argument names nvccache itself, but not as `nvcc`."""
    if _is_name_of_nvcc(os.path.basename(argument)) or argument.startswith("-"):
        return False
    return nvcc_lookup.is_ours(argument) if "/" in argument else argument in nvcc_lookup.OWN_NAMES


def _undo_locale_coercion() -> None:
    """Restore the caller's LC_CTYPE for child processes: in the C locale, Python changes it (PEP 538).

    Otherwise gcc would print other quotation marks, and keys would contain another locale than the caller's.
    """
    coerced = os.environ.get("LC_CTYPE")
    if coerced not in _COERCED or os.environ.get("LC_ALL"):
        return
    try:
        with open("/proc/self/environ", "rb") as stream:  # the environment before Python changed it
            given = stream.read().split(b"\0")
    except OSError:  # without /proc, the UTF-8 mode shows that Python changed it
        given = [] if sys.flags.utf8_mode else [b"LC_CTYPE=" + os.fsencode(coerced)]
    for entry in given:
        if entry.startswith(b"LC_CTYPE="):
            os.environ["LC_CTYPE"] = os.fsdecode(entry.partition(b"=")[2])
            return
    del os.environ["LC_CTYPE"]


def _end_if_interrupted(unraisable: sys.UnraisableHookArgs) -> None:
    """Die of a signal that arrived while a finalizer ran. Python would only print a message and go on."""
    fault = unraisable.exc_value
    if not isinstance(fault, KeyboardInterrupt) and not hasattr(fault, "signum"):  # process.Interrupted
        sys.__unraisablehook__(unraisable)
        return
    import signal

    from nvccache.machine import process

    process.die_of(getattr(fault, "signum", signal.SIGINT))


def _compile(typed: str, arguments: list[str]) -> NoReturn:
    try:
        status = _compile_or_exec(typed, arguments)
    except KeyboardInterrupt:  # ^C before or after tools run; meanwhile it raises process.Interrupted
        import signal

        from nvccache.machine import process

        process.die_of(signal.SIGINT)
    # There is nothing to clean up, and finalizing the interpreter would take as long as a hit.
    os._exit(status)


def _is_compiler(argument: str, *others: str) -> bool:
    """Whether a word names an nvcc, or another compiler on PATH, rather than a misspelled command."""
    if argument.startswith("-") or "nvcc" in argument:
        return not argument.startswith("-")
    is_name = any(part in argument for part in _COMPILER_NAMES)
    return is_name and bool(others and nvcc_lookup.find(argument, "", os.environ))


def _compile_or_exec(typed: str, arguments: list[str]) -> int:
    environ = dict(os.environ)
    config = None
    nvcc = ""
    try:
        config = load(environ)
        nvcc = nvcc_lookup.find(typed, config.nvcc, environ)
        if not nvcc:
            return _no_compiler(typed, config.nvcc, config.origins["nvcc"], environ)
        return _cached_compile(nvcc, typed, arguments, config, environ)
    except Exception as fault:
        if config.strict if config else environ.get("NVCCACHE_STRICT", "") not in ("", "0"):
            raise
        configured = config.nvcc if config else environ.get("NVCCACHE_NVCC", "")
        nvcc = nvcc or nvcc_lookup.find(typed, configured, environ)
        if not nvcc:
            return _no_compiler(typed, configured, "NVCCACHE_NVCC", environ)
        if config:
            import contextlib

            with contextlib.suppress(Exception):  # in a broken installation, the report may fail, too
                _report_fault(config, fault, nvcc)
        _exec_nvcc(nvcc, arguments, environ)


def _cached_compile(
    nvcc: str, typed: str, arguments: list[str], config: Config, environ: dict[str, str]
) -> int:
    gc.disable()  # a hit creates a few thousand objects and drops none, so collecting garbage is useless
    # Imported here, so that the real nvcc runs if an import fails.
    from nvccache.records import direct_hit
    from nvccache.records.products import Answer

    began = time.monotonic()
    reason = _reason_to_bypass(typed or "nvcc", nvcc, config, environ)
    if reason:
        if reason in _COUNTED_BYPASSES:
            call_end.record_bypass(config, reason, "", arguments, began)
        _exec_nvcc(nvcc, arguments, environ)
    request = direct_hit.Request(nvcc, arguments, environ, config)
    answer = direct_hit.answer(request)
    if answer is None:
        gc.set_threshold(_GC_THRESHOLD)
        gc.enable()
        return _staged_compile(request, began)
    if isinstance(answer, Answer):
        call_end.exit_with_hit(answer, config, began)
    else:
        call_end.record_bypass(config, answer.reason, answer.detail, arguments, began)
    return _exec_nvcc(nvcc, arguments, environ)


def _reason_to_bypass(typed: str, nvcc: str, config: Config, environ: dict[str, str]) -> str:
    if config.disable:
        return "disabled"
    if nvcc_lookup.TRIED_VARIABLE in environ:
        return "nested"
    if "nvcc" not in os.path.basename(typed):
        return "not_nvcc"
    if not config.dir:
        return "no_cache_directory"
    # A script whose interpreter can preload libraries does not get here: the launcher runs it (script.c).
    return "scripted_nvcc" if nvcc_lookup.is_script(nvcc) else ""


def _staged_compile(request: Request, began: float) -> int:
    from nvccache.machine import process

    try:
        try:
            process.raise_on_stop_signals()
            return _compile_request(request, began)
        finally:
            process.restore_stop_signals()
    except process.Interrupted as stop:
        process.reap_children()
        process.die_of(stop.signum)


def _compile_request(request: Request, began: float) -> int:
    from nvccache.explain.miss_reason import Explanation
    from nvccache.machine import process
    from nvccache.run import compile as compiling

    nvcc, arguments, environ, config = request.nvcc, request.arguments, request.environ, request.config
    report = compiling.compile_call(request, Explanation(is_recaching=config.recache))
    if report.answer:
        call_end.exit_with_hit(report.answer, config, began, report.remote)
        _exec_nvcc(nvcc, arguments, environ)
    event = call_end.event_of(report, list(request.invocation.inputs), arguments, began)
    if report.leave_to_nvcc == "odd_failure":
        # Most likely nvcc will fail, too. It runs as a child process, so that its failure can be counted.
        status = process.run_attached([nvcc, *arguments], request.guarded_environ)
        if status:
            event.outcome, event.reason = outcomes.FAILED, ""
        call_end.record(config, event, began)
        if status < 0:
            process.die_of(-status)
        return status
    call_end.record(config, event, began)
    if report.leave_to_nvcc or not call_end.write_output(report.stdout, report.stderr, report.is_query):
        _exec_nvcc(nvcc, arguments, environ)
    if report.to_send:
        _queue_for_remotes(config, report.to_send, environ)
    return report.status


def _queue_for_remotes(config: Config, items: list[tuple[str, str]], environ: dict[str, str]) -> None:
    """Queue new results for remotes. The call is finished, so after a fault nvcc must not run again."""
    try:
        from nvccache.remote import uploads

        uploads.send_soon(config, items, environ)
    except Exception as fault:
        call_end.note(config, f"nothing is sent to remotes: {type(fault).__name__}: {fault}")


def _report_fault(config: Config, fault: Exception, nvcc: str) -> None:
    if config.log:
        import traceback

        from nvccache import __version__, log

        # The command line is not logged, since any word may be a secret; `hide` removes macros in messages.
        lines = map(log.hide, "".join(traceback.format_exception(fault)).splitlines())
        log.write(config.log, f"fault in nvccache {__version__} in a call of {nvcc}", *lines)
    call_end.record(config, Event(outcomes.FAULT), time.monotonic())


def _no_compiler(typed: str, configured: str, origin: str, environ: dict[str, str]) -> int:
    """Report why there is no nvcc to run; returns the exit status that a shell would return."""
    from nvccache.toolkit import discovery

    status, sentence = nvcc_lookup.why_none(typed, configured, origin, environ)
    call_end.write(2, os.fsencode(f"nvccache: {sentence}\n"))
    if typed == "nvcc" and (nvcc := discovery.find_nvcc(environ)):
        call_end.write(2, os.fsencode(f"hint: to use `{nvcc}`, run `{discovery.export_path(nvcc)}`\n"))
    return status


def _exec_nvcc(nvcc: str, arguments: list[str], environ: dict[str, str]) -> NoReturn:
    """Replace this process by nvcc. Python ignores SIGPIPE, which nvcc must not inherit."""
    import signal

    for signum in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signum in (signal.SIGPIPE, signal.SIGXFSZ) or callable(signal.getsignal(signum)):
            signal.signal(signum, signal.SIG_DFL)
    environ = nvcc_lookup.guarded(environ, nvcc)
    try:
        try:
            os.execve(nvcc, [nvcc, *arguments], environ)
        except OSError as error:
            if error.errno != _NO_FORMAT:
                raise
            os.execve("/bin/sh", ["sh", nvcc, *arguments], environ)  # as shells do, if there is no #!
    except OSError as error:
        call_end.write(2, os.fsencode(f"nvccache: cannot run `{nvcc}`: {error.strerror}\n"))
        os._exit(126)


if __name__ == "__main__":
    sys.exit(main())
