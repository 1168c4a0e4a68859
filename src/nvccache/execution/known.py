"""What a call learns by the steps of its stages."""

from __future__ import annotations

from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.execution.find_stage import Lookup
    from nvccache.execution.run_stage import Made
    from nvccache.plan.model import Stage
    from nvccache.preprocessed.passes import Pass
    from nvccache.records.input_records import InputRecord


class Known:
    """What a call learns by the steps of its stages, collected by one thread."""

    def __init__(self) -> None:
        self.passes: dict[str, Pass] = {}  # by the preprocessed file
        self.input_records: list[InputRecord] = []
        self.dated_files: list[str] = []
        self.reasons_against_record: list[str] = []  # clauses
        self.is_bound = False  # whether a result depends on what the products are called

    def take_lookup(self, stage: Stage, lookup: Lookup) -> None:
        self.dated_files += lookup.dated
        self.is_bound = self.is_bound or lookup.is_bound
        if lookup.reason_against_record:
            self.reasons_against_record.append(lookup.reason_against_record)
        if lookup.found:
            self.take_read(stage, lookup.found.input_record)
        if lookup.facts:
            self.passes[stage.outputs[0].path] = lookup.facts

    def take_made(self, made: Made) -> None:
        self.passes |= made.passes
        for path in made.changed:
            if path in self.passes:
                self.passes[path] = replace(self.passes[path], free_of="", meaning="")

    def take_read(self, stage: Stage, made: InputRecord) -> None:
        """What a stage has read."""
        self.input_records.append(made)
        if not made.is_observed:
            self.reasons_against_record.append(f"{stage.kind} was not observed")

    def add(self, other: Known) -> None:
        """What another thread has learnt."""
        self.input_records += other.input_records
        self.reasons_against_record += other.reasons_against_record
        self.is_bound = self.is_bound or other.is_bound
