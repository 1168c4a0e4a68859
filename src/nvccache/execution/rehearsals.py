"""Which command a wrapper of the host compiler starts. Wrappers are scripts or programs of the user's.

A compiler's options say what its results may contain: lines, directories, paths. A wrapper may add any
options, for any reason. Hence it is rehearsed: run with exactly the arguments of nvcc, and stopped where it
starts the compiler (observer/rehearsal.c). Its stage is then treated as that command, which is in its key.

    known       from this rehearsal, or from an earlier one with the same arguments and directory, if nothing
                has changed that it was observed to read, look up or query (a record)
    checked     in each run of the stage: if the wrapper starts anything else, the call begins again
    unknown     a wrapper that cannot be rehearsed may do anything: its stage is keyed by the bytes of its
                inputs and writes its object in place (object_path.py)

A rehearsal never replaces the input record of the stage's own run.
"""

from __future__ import annotations

from nvccache.files import keys
from nvccache.observation import judge, wrapper_command
from nvccache.observation.stage_inputs import ObservedInputs, Subject
from nvccache.plan import stage_key
from nvccache.plan.model import Plan, Stage
from nvccache.plan.stages.host import has_debug_info
from nvccache.records import facts, rehearsed
from nvccache.records.input_records import UnreadableError
from nvccache.records.rehearsed import CompilerCall, Rehearsal
from nvccache.toolkit import toolchain
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nvccache.execution.context import Context
    from nvccache.observation.observer_log import Observation
    from nvccache.store.store import Store

_NEVER, _BEFORE = "never", "before"
_SCRATCH = "<scratch>"


def applied(context: Context) -> Context:
    """The context with the commands that wrappers of host compilers start; raises OSError."""
    made = _Rehearsals(context)
    return replace(context, plan=made.plan(), rehearsals=tuple(made.found))


class _Rehearsals:
    """The rehearsals of one call; those that showed the command are in `found`."""

    def __init__(self, context: Context) -> None:
        self.found: list[Rehearsal] = []
        self._context, self._plan, self._store = context, context.plan, context.store
        self._environ = context.environ
        self._inputs = ObservedInputs(
            context.store, context.cwd, context.plan.scratch, context.since_ns, context.checkout
        )
        self._now = facts.Present(self._environ, context.store, context.files)
        self._failed: set[str] = set()  # the wrappers that could not be rehearsed

    def plan(self) -> Plan:
        """The plan with the command that each host compiler starts, where known; raises OSError."""
        return self._plan.changed(
            lambda stage: self._with_command(stage) if runs_host_compiler(stage) else stage
        )

    def _with_command(self, stage: Stage) -> Stage:
        program = stage.argv[0]
        if toolchain.is_compiler(program, self._environ):
            return replace(stage, command=stage.argv)
        known = None if program in self._failed else self._find_unless_failed(stage)
        if not known:
            self._failed.add(program)
            return stage
        shows_directory = stage.grammar.sees_directory or has_debug_info(known.argv)
        return replace(
            stage,
            grammar=replace(stage.grammar, sees_directory=shows_directory),
            command=known.argv,
            becomes=_key_parts(known, stage, self._plan.scratch),
        )

    def _find_unless_failed(self, stage: Stage) -> CompilerCall | None:
        """The same as `_find_or_rehearse`, but None if that failed in an earlier call."""
        memo_key = _memo_key(stage, self._environ, self._store)
        remembered = self._store.find_memo(memo_key)
        # The first rehearsal is of a preprocessor: should the compiler run after all, no product is written.
        is_tried = remembered == _BEFORE or (not remembered and stage.is_preprocessor)
        if self._context.watch.is_blind or not is_tried:
            return None
        known = self._find_or_rehearse(stage)
        if not known or not remembered:
            self._store.add_memo(memo_key, _BEFORE if known else _NEVER)
        return known

    def _find_or_rehearse(self, stage: Stage) -> CompilerCall | None:
        """The command that a stage's wrapper starts, from a record or a rehearsal."""
        argv, scratch = _argv_of_nvcc(stage), self._plan.scratch
        tool = tuple(stage_key.tool_parts(stage, self._environ, self._store))
        shown = tuple(argument.replace(scratch, _SCRATCH) for argument in argv)
        directory = (self._context.cwd, self._environ.get("PWD", ""))
        front_key = keys.key_of("rehearsal", [("tool", tool), ("argv", shown), ("directory", directory)])
        found = rehearsed.find(front_key, self._store, self._now)
        if found:
            self.found.append(found)
            return _with_scratch(found.call, _SCRATCH, scratch)
        completed, log = self._context.watch.rehearse(argv, self._environ)
        observation = log.read()
        became = wrapper_command.of_run(observation, self._environ)
        if became is None or completed.stdout or completed.stderr:
            return None  # the wrapper's own messages are not part of the command
        try:
            made = self._inputs.input_record(observation, Subject(self._environ, stage.argv[0]))
        except UnreadableError:
            return None
        may_choose = any(map(judge.may_choose, wrapper_command.before_compiler(observation)))
        known = Rehearsal(_with_scratch(became, scratch, _SCRATCH), made, may_choose)
        self.found.append(known)
        rehearsed.add(front_key, known, self._store, self._context.since_ns)
        return became


def runs_host_compiler(stage: Stage) -> bool:
    """Whether a stage starts the host compiler, which may be a wrapper; not for host links, never cached."""
    return stage.is_preprocessor or stage.tool.is_host_compiler


def are_all_known(plan: Plan) -> bool:
    """Whether the commands of all host compilers are known."""
    return all(stage.command for stage in plan.stages if runs_host_compiler(stage))


def without_rehearsal(plan: Plan, stage: Stage, environ: Mapping[str, str], store: Store) -> Plan:
    """The plan without the command of this stage's wrapper, which is never rehearsed again."""
    store.add_memo(_memo_key(stage, environ, store), _NEVER)

    def without(other: Stage) -> Stage:
        is_same = other.argv[0] == stage.argv[0]
        return replace(other, command=(), becomes=()) if is_same else other

    return plan.changed(without)


def is_as_rehearsed(
    stage: Stage, observation: Observation, environ: Mapping[str, str], added: Sequence[str], scratch: str
) -> bool:
    """Whether a run started the rehearsed command; `added` are arguments that the rehearsal lacked."""
    if not stage.becomes:
        return True
    known = wrapper_command.of_run(observation, environ)
    if known is None:
        return False
    argv = list(known.argv)
    for argument in added:
        if argument in argv:
            argv.remove(argument)
    return _key_parts(replace(known, argv=tuple(argv)), stage, scratch) == stage.becomes


def _argv_of_nvcc(stage: Stage) -> tuple[str, ...]:
    """A stage's argv with products at nvcc's paths."""
    wanted = {output.path: output.destination for output in stage.outputs if output.destination}
    return tuple(wanted.get(argument, argument) for argument in stage.argv)


def _key_parts(known: CompilerCall, stage: Stage, scratch: str) -> tuple[str, ...]:
    """A wrapper's command as parts of a key component, without names of intermediates and products.

    Only the argument after `-o` is certain to name the product.
    """
    roles = {
        argument: shown
        for argument, shown in zip(stage.argv[1:], stage.key_argv, strict=True)
        if scratch in argument
    }
    products = {path: out.role for out in stage.outputs for path in (out.path, out.destination) if path}
    found, before = [], ""
    for argument in known.argv:
        if before == "-o" and argument in products:
            found.append(f"<{products[argument]}>")
        elif argument in roles and argument not in products:
            found.append(roles[argument])
        else:
            found.append(argument.replace(scratch, _SCRATCH))
        before = argument
    variables = [change.replace(scratch, _SCRATCH) for change in known.variables]
    return (known.program, str(len(found)), *found, *variables)


def _memo_key(stage: Stage, environ: Mapping[str, str], store: Store) -> str:
    tool = tuple(stage_key.tool_parts(stage, environ, store))
    return keys.key_of("rehearsed", [("tool", tool)])


def _with_scratch(known: CompilerCall, old: str, new: str) -> CompilerCall:
    """The command with another scratch directory."""
    argv = tuple(argument.replace(old, new) for argument in known.argv)
    variables = tuple(change.replace(old, new) for change in known.variables)
    return CompilerCall(known.program, argv, variables)
