"""A plan: stages with what they read and write, in nvcc's order, and what they are called; see build.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nvccache.plan.stages import OPAQUE, line_options, tool_of
from nvccache.plan.stages.tool import Grammar, Tool
from nvccache.values import dataclass, field, replace

__all__ = ["ADDED", "OPAQUE", "DependencyFile", "Output", "Plan", "Stage"]
ADDED = "+"  # behind the name of an output that a stage adds to
_ARCHITECTURE = ("-arch", "--arch", "--gpu-name")


@dataclass(frozen=True, slots=True)
class Output:
    """A file that a stage writes."""

    role: str
    path: str
    destination: str = ""  # where the user wants it
    begins_as: str = ""  # the intermediate that has to lie there before: the stage adds to it
    kept_as: str = ""  # where the user wants an intermediate

    @property
    def is_in_place(self) -> bool:
        """Whether the tool writes it where the user wants it, see object_place.py."""
        return self.path == self.destination


@dataclass(frozen=True, slots=True)
class Stage:
    """One command, and what it reads and writes."""

    grammar: Grammar
    argv: tuple[str, ...]  # the command as it is run
    key_argv: tuple[str, ...]  # the same with roles in the place of intermediate files
    inputs: tuple[str, ...]  # intermediate files, in the order of the command line
    outputs: tuple[Output, ...]
    mentions: tuple[str, ...]  # base names of the files that an output will include
    names: tuple[tuple[str, str], ...]  # (role, value)
    possible_files: tuple[str, ...]  # words that would be inputs if files of these names exist
    # Of a host compiler what its argv becomes (rehearsals.py), which is itself where that is no wrapper, or
    # empty where it is not known; and the same for the key, empty for no wrapper.
    command: tuple[str, ...] = ()
    becomes: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return self.grammar.kind

    @property
    def tool(self) -> Tool:
        return tool_of(self.grammar.kind)

    @property
    def is_located_anywhere(self) -> bool:
        """Whether the content of its tool, and of what that loads, stands for what the command does."""
        return self.tool.is_located_anywhere and not self.grammar.runs_programs

    @property
    def is_preprocessor(self) -> bool:
        return self.tool.is_preprocessor

    @property
    def lines_matter(self) -> bool:
        """Whether line numbers may show in its outputs, apart from diagnostics."""
        return self.tool.lines_matter(self.argv) or line_options.matter_if_added(self.added)

    @property
    def added(self) -> tuple[str, ...]:
        """The words that a wrapper adds to its own."""
        given = frozenset(self.argv)
        return tuple(word for word in self.command[1:] if word not in given)

    @property
    def kept_outputs(self) -> list[Output]:
        """What is read later on, or is a product."""
        return [output for output in self.outputs if output.role not in self.grammar.unread]

    def output(self, role: str) -> Output | None:
        return next((output for output in self.outputs if output.role == role), None)

    def name(self, role: str) -> str:
        return dict(self.names).get(role, "")


@dataclass(frozen=True, slots=True)
class DependencyFile:
    """Write the dependency file from the line markers of these preprocessed files."""

    path: str
    preprocessed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps, in nvcc's order."""

    steps: tuple[Stage | DependencyFile, ...]
    included: dict[str, tuple[str, ...]]  # intermediate -> the intermediates it includes
    destinations: dict[str, tuple[str, ...]]  # intermediate -> the products it flows into
    scratch: str
    own_ids: dict[str, str] = field(default_factory=dict)  # see module_id.py

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(step for step in self.steps if isinstance(step, Stage))

    def changed(self, change: Callable[[Stage], Stage]) -> Plan:
        """The same with each of its stages changed by this."""
        steps = (change(step) if isinstance(step, Stage) else step for step in self.steps)
        return replace(self, steps=tuple(steps))

    def end_of_passes(self, number: int) -> int:
        """Up to where passes can run before a step: those behind the next that stays in order cannot."""
        for at, step in enumerate(self.steps[number + 1 :], number + 1):
            if isinstance(step, Stage) and step.grammar.stays_in_order:
                return at
        return len(self.steps)

    @property
    def keeps_intermediates(self) -> bool:
        return any(output.kept_as for stage in self.stages for output in stage.outputs)

    @property
    def host_link(self) -> Stage | None:
        """The link of a program by the host's linker, if that comes last and reads what was made before."""
        last = self.steps[-1]
        if isinstance(last, Stage) and last.tool.links_program and last.inputs:
            return last
        return None

    @property
    def products(self) -> tuple[str, ...]:
        """The files the user wants, as nvcc names them."""
        written = [out.destination for stage in self.stages for out in stage.outputs if out.destination]
        linked = [stage.name("program") for stage in self.stages]
        return (*written, *(path for path in linked if path))

    @property
    def dependency_files(self) -> tuple[DependencyFile, ...]:
        return tuple(step for step in self.steps if isinstance(step, DependencyFile))


def names_of(stages: Iterable[Stage]) -> dict[int, str]:
    """What each stage is called, by its identity: `ptxas for sm_80`; a second one of a name has a number."""
    stages = list(stages)
    found: dict[int, str] = {}
    for stage in stages:
        architecture = architecture_of(stage, stages)
        if stage.is_preprocessor and not architecture:
            architecture = "the host"
        name = f"{tool_name(stage)} for {architecture}" if architecture else tool_name(stage)
        count = sum(known.partition(" (")[0] == name for known in found.values())
        found[id(stage)] = f"{name} ({count + 1})" if count else name
    return found


def tool_name(stage: Stage) -> str:
    """The name that an engineer knows: of a tool of NVIDIA's its own, of the host compiler what it does."""
    if stage.is_preprocessor:
        return "preprocessing"
    program = stage.argv[0].rpartition("/")[2]
    return program if program.startswith(stage.kind) else stage.kind.replace("_", " ")


def architecture_of(stage: Stage, stages: Iterable[Stage]) -> str:
    """The architecture that a stage works for, or empty for one of the host's."""
    architecture = named_by(stage)
    if architecture or not stage.is_preprocessor:
        return architecture
    # That of the only one which reads it. The macro does not tell compute_90 from compute_90a.
    written = {output.path for output in stage.outputs}
    readers = [other for other in stages if not written.isdisjoint(other.inputs)]
    return next(filter(None, map(named_by, readers)), "")


def named_by(stage: Stage) -> str:
    """The architecture that a command names for its tool, or empty."""
    for word, following in zip(stage.argv, (*stage.argv[1:], ""), strict=True):
        name, _, value = word.partition("=")
        if name in _ARCHITECTURE:
            return value or following
    return ""
