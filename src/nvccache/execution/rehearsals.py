"""Which command a host compiler becomes that is a wrapper: a script, or a program of somebody's own.

What nvcc gives to a host compiler says what its results may show: lines, directories, paths. Of a wrapper
that is not known, since it may add words, and choose them by anything. So it is rehearsed: run with the very
arguments that nvcc would give it, up to where it starts the compiler (observer/rehearsal.c). From then on its
stage is treated as that command, which is in its key.

    known       by this rehearsal, or one before with the same arguments in the same directory, behind which
                nothing has changed that it was observed to read, look for or ask for (a record)
    checked     in each run of the stage: where the wrapper becomes anything else the call begins again
    unknown     what cannot be rehearsed is treated as a program that may do anything: by the bytes of what it
                reads, with the object in its place (object_place.py)

No result is taken from anywhere without what its own run was observed to read.
"""

from __future__ import annotations

from nvccache.execution.context import environ_of_tools
from nvccache.files import keys
from nvccache.observation import becoming, process_checks
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
    """The same with what wrappers of host compilers become; raises OSError."""
    made = _Rehearsals(context)
    return replace(context, plan=made.plan(), rehearsals=tuple(made.found))


class _Rehearsals:
    """The rehearsals of one call; `found` are those that have shown what its wrappers become."""

    def __init__(self, context: Context) -> None:
        self.found: list[Rehearsal] = []
        self._context, self._plan, self._store = context, context.plan, context.store
        self._environ = environ_of_tools(context)
        self._inputs = ObservedInputs(
            context.store, context.cwd, context.plan.scratch, context.since_ns, context.checkout
        )
        self._now = facts.Present(self._environ, context.store)
        self._failed: set[str] = set()  # the wrappers that could not be rehearsed

    def plan(self) -> Plan:
        """The plan with what each host compiler becomes, as far as that is known; raises OSError."""
        return self._plan.changed(lambda stage: self._with_command(stage) if is_of_host(stage) else stage)

    def _with_command(self, stage: Stage) -> Stage:
        word = stage.argv[0]
        if toolchain.is_compiler(word, self._environ):
            return replace(stage, command=stage.argv)
        known = None if word in self._failed else self._tried(stage)
        if not known:
            self._failed.add(word)
            return stage
        shows_directory = stage.grammar.sees_directory or has_debug_info(known.argv)
        return replace(
            stage,
            grammar=replace(stage.grammar, sees_directory=shows_directory),
            command=known.argv,
            becomes=_parts(known, stage, self._plan.scratch),
        )

    def _tried(self, stage: Stage) -> CompilerCall | None:
        """The same as `_known`, unless it is known that this is in vain."""
        memo_key = _memo_key(stage, self._environ, self._store)
        remembered = self._store.find_memo(memo_key)
        # A preprocessor comes first, which writes nothing of the user's, should the compiler run after all.
        is_tried = remembered == _BEFORE or (not remembered and stage.is_preprocessor)
        if self._context.watch.is_blind or not is_tried:
            return None
        known = self._known(stage)
        if not known or not remembered:
            self._store.add_memo(memo_key, _BEFORE if known else _NEVER)
        return known

    def _known(self, stage: Stage) -> CompilerCall | None:
        """What a stage's wrapper becomes, found or rehearsed."""
        argv, scratch = _argv_of_nvcc(stage), self._plan.scratch
        tool = tuple(stage_key.tool_parts(stage, self._environ, self._store))
        shown = tuple(word.replace(scratch, _SCRATCH) for word in argv)
        place = (self._context.cwd, self._environ.get("PWD", ""))
        front = keys.key_and_secret("rehearsal", [("tool", tool), ("argv", shown), ("directory", place)])
        found = rehearsed.find(front, self._store, self._now)
        if found:
            self.found.append(found)
            return _renamed(found.call, _SCRATCH, scratch)
        on_terminal = bool(self._context.terminal)
        completed, log = self._context.watch.rehearse(argv, self._environ, on_terminal)
        observation = log.read()
        became = becoming.of_run(observation, self._environ)
        if became is None or completed.stdout or completed.stderr:
            return None  # nothing of what it says by itself shows in what it becomes
        try:
            made = self._inputs.input_record(observation, Subject(self._environ, stage.argv[0]))
        except UnreadableError:
            return None
        may_choose = any(map(process_checks.may_choose, becoming.before_compiler(observation)))
        known = Rehearsal(_renamed(became, scratch, _SCRATCH), made, may_choose)
        self.found.append(known)
        rehearsed.add(front, known, self._store, self._context.since_ns)
        return became


def is_of_host(stage: Stage) -> bool:
    """Whether a stage's command is the host compiler's, which may be a wrapper; the link is not kept."""
    return stage.is_preprocessor or stage.tool.is_host_compiler


def are_known(plan: Plan) -> bool:
    """Whether it is known of all host compilers what they become."""
    return all(stage.command for stage in plan.stages if is_of_host(stage))


def forgotten(plan: Plan, stage: Stage, environ: Mapping[str, str], store: Store) -> Plan:
    """The plan without what this stage's wrapper was expected to become; it is never rehearsed again."""
    store.add_memo(_memo_key(stage, environ, store), _NEVER)

    def without(other: Stage) -> Stage:
        is_same = other.argv[0] == stage.argv[0]
        return replace(other, command=(), becomes=()) if is_same else other

    return plan.changed(without)


def is_as_rehearsed(
    stage: Stage, observation: Observation, environ: Mapping[str, str], added: Sequence[str], scratch: str
) -> bool:
    """Whether a run has become what it was rehearsed to; `added` are words that were not rehearsed."""
    if not stage.becomes:
        return True
    known = becoming.of_run(observation, environ)
    if known is None:
        return False
    argv = list(known.argv)
    for word in added:
        if word in argv:
            argv.remove(word)
    return _parts(replace(known, argv=tuple(argv)), stage, scratch) == stage.becomes


def _argv_of_nvcc(stage: Stage) -> tuple[str, ...]:
    """A stage's command with products where nvcc has them written."""
    wanted = {output.path: output.destination for output in stage.outputs if output.destination}
    return tuple(wanted.get(word, word) for word in stage.argv)


def _parts(known: CompilerCall, stage: Stage, scratch: str) -> tuple[str, ...]:
    """What a wrapper becomes, as a key component: without what its intermediates and products are called.

    Only the word behind `-o` is known to name the product, and nothing else.
    """
    roles = {
        word: shown for word, shown in zip(stage.argv[1:], stage.key_argv, strict=True) if scratch in word
    }
    products = {path: out.role for out in stage.outputs for path in (out.path, out.destination) if path}
    found, before = [], ""
    for word in known.argv:
        if before == "-o" and word in products:
            found.append(f"<{products[word]}>")
        elif word in roles and word not in products:
            found.append(roles[word])
        else:
            found.append(word.replace(scratch, _SCRATCH))
        before = word
    variables = [change.replace(scratch, _SCRATCH) for change in known.variables]
    return (known.program, str(len(found)), *found, *variables)


def _memo_key(stage: Stage, environ: Mapping[str, str], store: Store) -> str:
    tool = tuple(stage_key.tool_parts(stage, environ, store))
    return keys.key_of("rehearsed", [("tool", tool)])


def _renamed(known: CompilerCall, old: str, new: str) -> CompilerCall:
    """What a wrapper becomes where the scratch directory is called otherwise."""
    argv, variables = (
        tuple(word.replace(old, new) for word in words) for words in (known.argv, known.variables)
    )
    return CompilerCall(known.program, argv, variables)
