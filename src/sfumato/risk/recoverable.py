"""What the unchanged variables of a release give away about the protected ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Mask
from sfumato.measure import AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.pairs.alignment import quote_names
from sfumato.parameters import parameters
from sfumato.risk.dependencies.rules import EARLIER, Finding, find_dependencies

_ASSUMPTIONS = (
    "A tool is a released variable of which at least half of the cells are unchanged.",
    "So is one that is neither known nor secret, whatever was done to it, but no pseudonym.",
    "The attacker knows the rules; each record's own is learnt from the other records only.",
    "Only records whose protected cell was changed count.",
    "The control is what the same rules give if tools and protected variable are unrelated.",
)


@parameters
class Recoverable(Measure):
    """Share of protected values that unchanged variables give back.

    Question: does something that leaves as it is undo what was protected?
    Assumes: an attacker knows how variables depend on each other, and follows four kinds of rules
    from the variables that left unchanged (the tools) to each protected one: the same value of a
    tool, or of two tools together, goes with one protected value (a survey weight that stands for
    region and household size); the protected number rises or falls with a tool (its logarithm);
    it is a sum or difference of tools; or a product or ratio of them. Dependencies that hold for
    most records count as well.

    The value is the largest share of changed cells, over the protected variables, that come back,
    beyond what the same rules give by chance. A number comes back if it is hit to `within` standard
    deviations, whole numbers and categories if they are hit exactly. `recoverable_records` counts
    the records for which at least one protected value comes back; the table has the best rule for
    each protected variable.

    The value is about values that come back, whoever's they are: rows of one person count each.

    Parameters
    ----------
    variables : the protected variables. Default: all whose role is "quasi" or "sensitive" and of
        which the release changed at least one cell.
    within : how near a number must come: in standard deviations of the original.
    pairs : try two tools together as well; at most 300 pairs, those with the fewest distinct values
        first.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"region": ["a", "a", "b", "b", "c", "c"] * 4,
    ...                       "rate": [1.5, 1.5, 2.5, 2.5, 7.0, 7.0] * 4})
    >>> schema = sf.Schema({"region": "quasi", "rate": "weight"})
    >>> original = sf.Dataset(frame, schema)
    >>> released = sf.Dataset(frame.with_columns(region=pl.lit("*")), schema)
    >>> found = Recoverable().measure(original, released)
    >>> round(found.value, 2), found.details["worst_variable"], found.details["worst_tools"]
    (1.0, 'region', ('rate',))

    References: Huhtala et al. (1999), TANE: an efficient algorithm for discovering functional and
    approximate dependencies.
    """

    name = "recoverable"
    counts_persons = True  # it counts values
    attack = AttackWording(
        title="Undoing by unchanged variables",
        control="the same rules on unrelated values",
        sentence="From what left unchanged, somebody works out {success} of the changed values of "
        "{worst_variable}. On unrelated values the same rules give {control}.",
    )
    # What depends on each other by nature, such as marriage and income, gives up to 0.11 in Adult;
    # a class on board that can be read off the fare gives 0.8 in Titanic.
    trial = Trial(needs=(), acceptable=0.2, seconds=7.5, in_sample="as it is")
    odd = {"one row": 0, "all missing": 0}
    examples = ({}, {"variables": ["region", "household_size"], "pairs": False})
    of = "pair"
    numbers = (
        Number.share("recoverable", usual=True),
        Number.count("recoverable_records"),
    )
    variables: list[str] | None = None
    within: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.01
    pairs: bool = True

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Follow every rule from every tool to every protected variable."""
        del engine  # all records are in memory
        return self.compare_with(original, released)

    def compare_with(
        self, original: Dataset, released: Dataset, seen: Mapping[str, Mask] | None = None
    ) -> Evidence:
        """The same for somebody who has earlier releases as well.

        Parameters
        ----------
        seen : by variable, the records whose value an earlier release has shown.
        """
        findings = find_dependencies(
            original,
            released,
            self.choose_protected(original),
            within=self.within,
            pairs=self.pairs,
            shown_before=seen,
        )
        worst = max(findings, key=lambda finding: finding.gain, default=None)
        flags = np.zeros(len(original), bool)
        for finding in findings:
            if finding.counts:
                flags[finding.recovered] = True
        return Evidence(
            name=self.name,
            subject="pair",
            value=worst.gain if worst else 0.0,
            direction=self.direction,
            baseline=worst.chance if worst else 0.0,
            records=original.like(pl.DataFrame({"recoverable": flags})),
            table=original.like(_tabulate(findings)),
            details={
                "recoverable_records": int(flags.sum()),
                "worst_variable": worst.protected if worst else "",
                "worst_tools": tuple(worst.tools) if worst else (),
                "worst_rule": worst.rule if worst else "",
                "recovered": worst.share if worst else 0.0,
                "protected": tuple(finding.protected for finding in findings),
                "records": len(original),
            },
            assumptions=_ASSUMPTIONS,
            warnings=_list_warnings(findings),
        )

    def choose_protected(self, original: Dataset) -> list[str]:
        """The variables that are to stay unknown."""
        if self.variables is not None:
            original.schema.require(self.variables)
            return self.variables
        return [*original.schema.having("quasi", "sensitive")]


def _tabulate(findings: Sequence[Finding]) -> pl.DataFrame:
    schema = {
        "variable": pl.String,
        "recoverable": pl.Float64,
        "share": pl.Float64,
        "by_chance": pl.Float64,
        "rule": pl.String,
        "tools": pl.String,
    }
    rows = [(f.protected, f.gain, f.share, f.chance, f.rule, ", ".join(f.tools)) for f in findings]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _list_warnings(findings: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(
        f"{finding.share:.1%} of the changed values of '{finding.protected}' {_explain(finding)}"
        for finding in findings
        if finding.counts
    )


def _explain(finding: Finding) -> str:
    if finding.rule == EARLIER:
        return "were shown by an earlier release."
    return f"come back from {quote_names(finding.tools)} ({finding.rule})."
