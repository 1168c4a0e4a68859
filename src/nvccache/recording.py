"""From a compile that has been carried out to the records that answer it the next time.

Decides whether there can be a record at all, and how widely it may be shared. What a call read is the
union over all of its passes and tools; its key does not say it, so whatever is left out here would be
served stale.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from nvccache import (
    dependencies,
    direct,
    ingredients,
    keys,
    machine,
    manifest,
    markers,
    module_id,
    reading,
    replay,
    searches,
    signatures,
    toolchain,
)
from nvccache.answer import Answer
from nvccache.reading import ABSENT, LIBRARY, PRESENT, PROGRAM, Reading, UnreadableError
from nvccache.relocation import Relocation
from nvccache.stages import host, nvlink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nvccache.execution import Execution
    from nvccache.invocation import Invocation
    from nvccache.loader import Loaded
    from nvccache.plan import Plan, Stage
    from nvccache.report import Report
    from nvccache.request import Request

_HOST_PASSES = ("host_preprocess", "device_preprocess", "host_compile")
_PREFIX_MAPS = ("-ffile-prefix-map=", "-fdebug-prefix-map=")
_PARTS_OF_A_COMPILER = ("specs", "as", "cc1plus")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Where the record of a call is, or why there is none: `objection`, a clause."""

    front_key: str = ""
    key: str = ""
    scope: str = ""
    objection: str = ""


class Recorder:
    """What a call that has been carried out was and did; `variables` are those that nvcc itself sets."""

    def __init__(
        self,
        request: Request,
        execution: Execution,
        report: Report,
        variables: Mapping[str, str],
        places: Relocation,
    ) -> None:
        self.request = request
        self.nvcc = request.nvcc
        self.call = request.invocation
        self.execution = execution
        self.places = places
        self.cwd = os.getcwd()
        self._report = report
        self._variables = variables
        self._environ = execution.environ

    def objection(self) -> str:
        """The first reason why the call cannot be recorded, a clause; or empty."""
        reasons = [*self.execution.objections, *_of_call(self.call, self.execution.plan)]
        reasons += [self._of_programs()]
        return next((reason for reason in reasons if reason), "")

    def reading(self) -> Reading:
        """Everything the call read; raises UnreadableError."""
        made = self._union()
        made.links += [(path, os.path.realpath(path)) for path in (self.nvcc, *self.call.inputs)]
        dated = dict.fromkeys(self.execution.dated_files)
        dated |= dict.fromkeys(path for part in self.execution.readings for path, _ in part.dates)
        made.dates = [(path, reading.date_and_size(path)) for path in dated]
        made.machine = self._machine()
        made.cache_signatures = [signatures.of(path) or signatures.UNKNOWN for path in made.caches]
        made.absent = list(dict.fromkeys(path for known in self._loaded() for path in known.absent))
        return made

    def _machine(self) -> list[tuple[str, ...]]:
        """What the products depend on beside files, with the answers of now."""
        loaded = self._loaded()
        names: dict[str, dict[str, None]] = {}
        for known in loaded:
            names.setdefault(known.cache, {}).update(dict.fromkeys(known.names))
        asked = [(reading.LIBRARIES, ":".join((path, *of_path))) for path, of_path in names.items() if path]
        asked += [(machine.FEATURES, known.loader) for known in loaded if known.has_libm]
        is_native = any(host.depends_on_processor(stage.words) for stage in self.execution.plan.stages)
        if is_native or not all(known.has_libm for known in loaded):
            asked.append((machine.NATIVE, ""))
        answers: list[tuple[str, ...]] = []
        for topic, subject in dict.fromkeys(asked):
            answer = machine.answer(topic, subject, self._environ, self.execution.store)
            if not answer:
                raise UnreadableError("what its tools see of the machine cannot be told")
            answers.append((topic, subject, answer))
        return answers

    def _loaded(self) -> list[Loaded]:
        """What the programs load that compute by it."""
        found = [
            known
            for stage in self.execution.plan.stages
            if stage.grammar.folds_mathematics
            for known in ingredients.loaded_by(stage, self._environ, self.execution.store)
        ]
        return list(dict.fromkeys(found))

    def _union(self) -> Reading:
        digests: dict[str, str] = {}
        names: dict[str, set[str]] = {}
        twins: dict[tuple[str, ...], None] = {}
        links: dict[tuple[str, ...], None] = {}
        for part in self.execution.readings:
            digests |= dict(zip(part.files, part.digests, strict=True))
            twins |= dict.fromkeys(part.twins)
            links |= dict.fromkeys(part.links)
            for directory, listed in zip(part.directories, part.names, strict=True):
                names.setdefault(directory, set()).update(listed)
        programs = self._programs()
        libraries = [path for known in self._loaded() for path in known.files]
        for path in (*programs, *libraries):
            digests[path] = toolchain.digest_of_program(path, self.execution.store)
        others = [*self.call.option_files, *self._possible_files(), *self._profiles(), *self._libraries()]
        for path in others:
            digests.setdefault(path, keys.digest_file(path))
        for directory, watch in (*self._places_of_programs(), *self._places_of_libraries()):
            names.setdefault(directory, set()).add(watch)
        made = self.execution.headers.reading(digests, names, digests)
        special = dict.fromkeys(libraries, LIBRARY) | dict.fromkeys(programs, PROGRAM)
        kinds = zip(made.files, made.kinds, strict=True)
        made.kinds = "".join(special.get(path, kind) for path, kind in kinds)
        made.twins, made.links = list(twins), list(links)
        return made

    def _programs(self) -> list[str]:
        """The files of all programs that a call starts, nvcc first."""
        found = [self.nvcc, *toolchain.chain_of_scripts(self.nvcc)]
        here = self._variables.get("_HERE_", "")
        found += [os.path.join(here, "nvcc")] if here else []
        for stage in self.execution.plan.stages:
            if stage.kind in _HOST_PASSES:
                compiler = self._host_compiler(stage)
                found += [compiler.driver, *toolchain.chain_of_scripts(compiler.driver), *compiler.programs]
            else:
                found.append(toolchain.resolve(stage.words[0], self._environ.get("PATH", "")))
        return [path for path in dict.fromkeys(found) if os.path.isfile(path)]

    def _places_of_programs(self) -> Iterable[tuple[str, str]]:
        """Where a program of the same name would be found first: on PATH, and beside a compiler's parts."""
        for stage in self.execution.plan.stages:
            word = stage.words[0]
            yield from self._before_on_path(word)
            if stage.kind in _HOST_PASSES:
                for program in self._host_compiler(stage).programs:
                    yield from self._before_on_path(os.path.basename(program), program)
                    yield from _missing_parts(os.path.dirname(program))

    def _before_on_path(self, word: str, found: str = "") -> Iterable[tuple[str, str]]:
        if "/" in word:
            return
        for directory in self._environ.get("PATH", "").split(":"):
            candidate = os.path.join(directory or ".", word)
            is_program = toolchain.resolve(candidate, "") != ""
            if is_program and (not found or os.path.realpath(candidate) == os.path.realpath(found)):
                return
            if not os.path.lexists(candidate) and os.path.isdir(directory or "."):
                yield directory or ".", ABSENT + word

    def _libraries(self) -> list[str]:
        """The libraries that device code is linked from, or compiled by."""
        return [
            path for stage in self._linking() for path in self._found_by(stage).found if nvlink.is_read(path)
        ]

    def _places_of_libraries(self) -> Iterable[tuple[str, str]]:
        """Where other libraries of the same names would be found, and shared ones that are left alone."""
        for stage in self._linking():
            found = self._found_by(stage)
            yield from map(searches.absence_of, found.missing)
            for path in found.found:
                if not nvlink.is_read(path):
                    yield os.path.dirname(path) or ".", PRESENT + os.path.basename(path)

    def _linking(self) -> list[Stage]:
        return [stage for stage in self.execution.plan.stages if stage.grammar.searches_libraries]

    def _found_by(self, stage: Stage) -> nvlink.Libraries:
        return nvlink.libraries(stage.words, self._environ)

    def _host_compiler(self, stage: Stage) -> toolchain.HostCompiler:
        return toolchain.host_compiler(stage.words[0], self._environ, self.execution.store)

    def _possible_files(self) -> list[str]:
        stages = self.execution.plan.stages
        named = dict.fromkeys(path for stage in stages for path in stage.possible_files)
        return [path for path in named if toolchain.is_regular_file(path)]

    def _profiles(self) -> list[str]:
        here = self._variables.get("_HERE_", "")
        profile = os.path.join(here, "nvcc.profile")
        return [profile] if here and os.path.isfile(profile) else []

    def _of_programs(self) -> str:
        """The reason why programs cannot be relied upon to be what they were, a clause; or empty."""
        if not self._variables.get("_HERE_"):
            return "nvcc does not say where its parts are"
        if not toolchain.is_dependable(self.nvcc):
            return f"nvcc `{self.nvcc}` is a script"
        if not all(known.is_known for known in self._loaded()):
            return "which libraries a tool loads cannot be told"
        for stage in self.execution.plan.stages:
            if stage.kind in _HOST_PASSES:
                compiler = self._host_compiler(stage)
                if not compiler.is_itself:
                    return f"the host compiler `{compiler.driver}` is a script"
        return ""

    def answer(self) -> Answer:
        """What the call gave."""
        given = Answer()
        execution = self.execution
        for stage in execution.plan.stages:
            for output in stage.outputs:
                if output.destination:
                    digest = execution.workspace.digest_of(output.path)
                    given.products.append((output.destination, digest, stage.kind == "host_compile"))
        for step in execution.plan.dependency_files:
            given.dependency_file = step.path
            given.rule = dependencies.rule(self.entered(), self.call)
        given.stdout, given.stderr = self._report.stdout, self._report.stderr
        given.seconds_saved = sum(seconds for _, _, seconds in self._report.stages)
        if execution.plan.host_link:
            self._leave_out(execution.plan.host_link, given)
        return given

    def _leave_out(self, link: Stage, given: Answer) -> None:
        """Have an answer say what the host's link reads, instead of what it said."""
        given.stdout, given.stderr = self._report.told_before_link
        for path in dict.fromkeys(link.inputs):
            name = os.path.relpath(path, self.execution.plan.scratch)
            given.intermediates.append((name, self.execution.workspace.digest_of(path)))
        given.stages = [(kind, seconds) for kind, _, seconds in self._report.stages]

    def entered(self) -> list[tuple[bytes, bool]]:
        for step in self.execution.plan.dependency_files:
            return markers.union([self.execution.passes[path].listed for path in step.preprocessed])
        return []

    def scope(self, given: Answer) -> str:
        """How widely the record may be shared."""
        if self.execution.seeding.is_bound or self._names_outputs(given) or given.intermediates:
            return direct.BOUND
        return direct.SHARED if self._is_relocatable(given) else direct.PLACED

    def _names_outputs(self, given: Answer) -> bool:
        """Whether a product or a message holds the name of an output."""
        for stage in self.execution.plan.stages:
            if (
                stage.grammar.sees_names
                and stage.kind == "ptxas"
                and any(out.destination for out in stage.outputs)
            ):
                return True
        names = [os.fsencode(destination) for destination, _, _ in given.products]
        return any(name in given.stderr + given.stdout for name in names)

    def _is_relocatable(self, given: Answer) -> bool:
        base = self.places.base
        if not base:
            return False
        plan = self.execution.plan
        if any(stage.kind == "cicc" and stage.grammar.sees_directory for stage in plan.stages):
            return False
        if not all(known.free_of == base for known in self.execution.passes.values()):
            return False
        needle = os.fsencode(base)
        contents = [
            self.execution.content_of(out)
            for stage in plan.stages
            for out in stage.outputs
            if out.destination
        ]
        if any(needle in content for content in [*contents, given.stdout, given.stderr]):
            return False
        told = [*contents, given.stdout, given.stderr]
        if any(map(module_id.may_be_any_in, told)) or any(map(self.execution.may_name_id, plan.stages)):
            return False
        return all(self._hides_directory(stage) for stage in plan.stages if stage.kind == "host_compile")

    def _hides_directory(self, stage: Stage) -> bool:
        """Whether debug information, if there is any, is free of where the checkout is."""
        if not host.asks_for_debug_info(stage.words):
            return True
        maps = [
            word.partition("=")[2].partition("=")[0] for word in stage.words if word.startswith(_PREFIX_MAPS)
        ]
        cwd = os.getcwd()
        is_mapped = any(old and (cwd + "/").startswith(old.rstrip("/") + "/") for old in maps)
        is_compressed = any(word.startswith(("-gz", "-Wa,--compress")) for word in stage.words)
        return is_mapped and not is_compressed and self._environ.get("PWD", cwd) == cwd


def _missing_parts(directory: str) -> Iterable[tuple[str, str]]:
    """What a compiler driver looks for beside its parts, and one level up, before it searches PATH."""
    above = os.path.dirname(directory)
    parts = (*_PARTS_OF_A_COMPILER, f"{os.path.basename(above)}-as")
    for folder in (directory, above):
        for name in parts:
            if folder and not os.path.lexists(os.path.join(folder, name)):
                yield folder, ABSENT + name


def _of_call(call: Invocation, plan: Plan) -> list[str]:
    found = []
    if any(
        argument.value and "native" in argument.value
        for argument in call.arguments
        if argument.name in ("gpu-architecture", "gpu-code", "generate-code")
    ):
        found.append("it asks for the native architecture")
    if len(plan.dependency_files) > 1:
        found.append("it writes several dependency files")
    return found


def record(recorder: Recorder) -> Recorded:
    """Record a call that has been carried out, at every level where that is sound."""
    cache = recorder.execution.store
    recorder.execution.headers.remember()
    objection = recorder.objection()
    try:
        made = recorder.reading() if not objection else Reading()
    except (UnreadableError, OSError) as error:
        objection = str(error)
    if objection:
        return Recorded(objection=objection)
    given = recorder.answer()
    scope = recorder.scope(given)
    places = recorder.places if scope == direct.SHARED else Relocation("", recorder.cwd)
    listed = [(os.fsdecode(name), is_system) for name, is_system in recorder.entered()]
    attached = direct.attach(given, listed, recorder.call, places)
    if attached is None:
        return Recorded(objection="the name of its dependency file follows from nothing known")
    request = recorder.request
    front_key = direct.key_of(scope, recorder.nvcc, recorder.call, places, request.environ)
    front_key = keys.for_terminal(front_key, request.terminal, given.stderr)
    key = reading.key_of(front_key, made)
    manifest.add(front_key, manifest.Found(key, made, attached), cache, places, recorder.execution.since_ns)
    cache.add_basis(key)
    replay_key = keys.for_terminal(request.replay_key, request.terminal, given.stderr)
    replay.add(replay_key, made, given, request.arguments, cache)
    return Recorded(front_key, key, scope)
