"""What is known of the stages of a call by now."""

from __future__ import annotations

from nvccache.plan.model import Stage
from nvccache.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nvccache.execution.find_stage import Lookup
    from nvccache.execution.publish_stage import Published
    from nvccache.execution.run_stage import Made
    from nvccache.preprocessed.passes import Pass
    from nvccache.records.input_records import InputRecord


class Known:
    """One thread collects here what the steps hand back."""

    def __init__(self) -> None:
        self.passes: dict[str, Pass] = {}  # by the preprocessed file
        self.input_records: list[InputRecord] = []
        self.dated_files: list[str] = []
        self.reasons_against_record: list[str] = []  # clauses
        self.is_bound = False  # whether a result depends on what the products are called

    def take_lookup(self, stage: Stage, lookup: Lookup) -> None:
        self.dated_files += lookup.dated
        self.is_bound |= lookup.is_bound
        if lookup.reason_against_record:
            self.reasons_against_record.append(lookup.reason_against_record)
        if lookup.found:
            self._take_input_record(stage, lookup.found.input_record)
        if lookup.facts:
            self.passes[stage.outputs[0].path] = lookup.facts

    def take_made(self, made: Made) -> None:
        self.passes |= made.passes
        for path in made.changed:
            if path in self.passes:
                self.passes[path] = replace(self.passes[path], free_of="", meaning="")

    def take_published(self, stage: Stage, published: Published) -> None:
        self.is_bound |= published.is_bound
        if published.input_record:
            self._take_input_record(stage, published.input_record)
        if published.reason_against_record:
            self.reasons_against_record.append(published.reason_against_record)

    def _take_input_record(self, stage: Stage, made: InputRecord) -> None:
        self.input_records.append(made)
        if not made.is_observed:
            self.reasons_against_record.append(f"{stage.kind} was not observed")
