"""The types of a plan, which build.py creates: stages in nvcc's order, with their inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nvccache.plan.stages import OPAQUE as OPAQUE
from nvccache.plan.stages import tool_of
from nvccache.plan.stages.tool import Grammar, Tool
from nvccache.values import dataclass, replace

# Kinds of wrappers: a script that only runs `exec COMPILER OPTIONS "$@"`, and any other wrapper.
PLAIN_WRAPPER, ANY_WRAPPER = "plain", "any"
APPENDED = "+"  # added to a file's name for each stage that would append to the file
_ARCHITECTURE = ("-arch", "--arch", "--gpu-name")


@dataclass(frozen=True, slots=True)
class Output:
    """A file that a stage writes."""

    role: str  # what the file is, such as "cubin"
    path: str
    destination: str = ""  # where the user requested the file; empty for an intermediate
    begins_as: str = ""  # an intermediate that is copied to `path` before the stage appends to it

    @property
    def is_in_place(self) -> bool:
        """Whether the tool writes the file directly to its destination; run/wrappers.py says when."""
        return self.path == self.destination


@dataclass(frozen=True, slots=True)
class Stage:
    """One command, with its inputs and outputs."""

    grammar: Grammar
    argv: tuple[str, ...]  # as run
    key_argv: tuple[str, ...]  # `argv` with roles instead of the names of intermediates
    inputs: tuple[str, ...]  # intermediate files, in the order of the command line
    outputs: tuple[Output, ...]
    mentions: tuple[str, ...]  # base names of files that an output includes
    names: tuple[tuple[str, str], ...]  # (role, value)
    possible_files: tuple[str, ...]  # arguments that are inputs if files of these names exist
    wrapper: str = ""  # the kind of wrapper that starts the host compiler; empty if there is none

    @property
    def kind(self) -> str:
        return self.grammar.kind

    @property
    def tool(self) -> Tool:
        return tool_of(self.grammar.kind)

    @property
    def is_preprocessor(self) -> bool:
        return self.tool.is_preprocessor

    @property
    def lines_matter(self) -> bool:
        """Whether line numbers may affect its outputs, apart from diagnostics."""
        return self.tool.lines_matter(self.argv)

    @property
    def runs_host_compiler(self) -> bool:
        """Whether it starts the host compiler or a wrapper; False for host links, which are never cached."""
        return self.is_preprocessor or self.tool.is_host_compiler

    @property
    def kept_outputs(self) -> list[Output]:
        """The products, and the intermediates that a later stage reads."""
        return [output for output in self.outputs if output.role not in self.grammar.unread]

    def output(self, role: str) -> Output | None:
        return next((output for output in self.outputs if output.role == role), None)

    def name(self, role: str) -> str:
        return dict(self.names).get(role, "")


@dataclass(frozen=True, slots=True)
class DependencyFile:
    """The step that writes the depfile from the line markers in the `preprocessed` files."""

    path: str
    preprocessed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps, in nvcc's order."""

    steps: tuple[Stage | DependencyFile, ...]
    included: dict[str, tuple[str, ...]]  # intermediate -> the intermediates it includes
    destinations: dict[str, tuple[str, ...]]  # intermediate -> the products that depend on it
    scratch: str

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(step for step in self.steps if isinstance(step, Stage))

    def changed(self, change: Callable[[Stage], Stage]) -> Plan:
        """The plan with `change` applied to each stage."""
        steps = (change(step) if isinstance(step, Stage) else step for step in self.steps)
        return replace(self, steps=tuple(steps))

    def end_of_passes(self, number: int) -> int:
        """The index of the first step after `number` that has to end before later passes start."""
        for at, step in enumerate(self.steps[number + 1 :], number + 1):
            if isinstance(step, Stage) and step.grammar.stays_in_order:
                return at
        return len(self.steps)

    @property
    def products(self) -> tuple[str, ...]:
        """The files that the user requested, as nvcc names them."""
        written = [out.destination for stage in self.stages for out in stage.outputs if out.destination]
        linked = [stage.name("program") for stage in self.stages]
        return (*written, *(path for path in linked if path))

    @property
    def dependency_files(self) -> tuple[DependencyFile, ...]:
        return tuple(step for step in self.steps if isinstance(step, DependencyFile))


def architecture_of(stage: Stage, stages: Iterable[Stage]) -> str:
    """The architecture for which a stage compiles; empty for the host."""
    architecture = architecture_option(stage)
    if architecture or not stage.is_preprocessor:
        return architecture
    # A pass takes it from the stage that reads its output: __CUDA_ARCH__ is 900 for compute_90 and for 90a.
    written = {output.path for output in stage.outputs}
    readers = [other for other in stages if not written.isdisjoint(other.inputs)]
    return next(filter(None, map(architecture_option, readers)), "")


def architecture_option(stage: Stage) -> str:
    """The architecture given by an option, or empty."""
    for token, following in zip(stage.argv, (*stage.argv[1:], ""), strict=True):
        name, _, value = token.partition("=")
        if name in _ARCHITECTURE:
            return value or following
    return ""
