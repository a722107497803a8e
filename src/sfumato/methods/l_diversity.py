"""Clusters in which confidential values differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.method import Strength
from sfumato.methods.clustering.method import ClusteringMethod
from sfumato.methods.clustering.microaggregation import read_confidential, require_diverse
from sfumato.methods.clustering.variables import ConfidentialRule
from sfumato.parameters import parameters


@parameters
class LDiversity(ClusteringMethod):
    """Make clusters of at least k in which confidential values are at least l-diverse.

    Question: could all records of a cluster share what nobody should learn?
    Assumes: the outsider knows `variables` and nothing of how common a value is. Missing is no
    further value: it may be the commonest of its cluster. Diversity counts different values,
    however alike: for numbers use `t_closeness`.

    Parameters
    ----------
    variables : what is generalised. Default: all whose role is "quasi".
    confidential : confidential variable, or several, each diverse by itself. Default: all whose
        role is "sensitive".
    k : fewest records in a cluster; persons, where rows belong to persons (see `k_anonymity`). The
        confidential variable must then be constant within each.
    l : least diversity of a cluster.
    kind : kind of diversity: "distinct" counts different values; "entropy" is the number of equally
        common values that would be as uncertain; "recursive" asks that the commonest value is rarer
        than c times all values from the l-th commonest on.
    c : constant of recursive diversity.
    output : what a cluster gets; see `k_anonymity`.
    ends : where ranges end; see `k_anonymity`.
    grid : grid of the ranges; see `k_anonymity`.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [20, 24, 61, 70], "illness": ["flu", "flu", "flu", "hiv"]})
    >>> data = sf.Dataset(frame, sf.Schema({"age": "quasi", "illness": "sensitive"}))
    >>> LDiversity(k=2, l=2).apply(data).frame["age"].to_list()
    ['[0;99]', '[0;99]', '[0;99]', '[0;99]']

    References: Machanavajjhala, Kifer, Gehrke & Venkitasubramaniam (2007), ACM TKDD 1(1):3.
    """

    name = "l_diversity"
    keeps_groups = False
    strength = Strength("k")
    treats = "records"
    runs_on = ("local", "streaming", "spark")
    reports = ("diversity", "information_loss")
    odd = {
        "empty": "refused",
        "one row": "refused",
        "all missing": "refused",
        "constant": "refused",
    }
    examples = (
        {
            "variables": ["birth_date", "sex", "region", "household_size"],
            "confidential": ["diagnosis"],
            "l": 3,
        },
        {
            "variables": ["birth_date", "ethnicity", "household_size"],
            "confidential": "diagnosis",
            "k": 4,
            "l": 2,
            "kind": "recursive",
            "c": 3.0,
        },
    )
    confidential: str | list[str] | None = None
    l: Annotated[float, Field(ge=1)] = 2  # noqa: E741 - the literature's letter
    kind: Literal["distinct", "entropy", "recursive"] = "distinct"
    c: Annotated[float, Field(gt=0)] = 3.0

    def rules(self, data: Dataset, known: Sequence[str], engine: Engine) -> list[ConfidentialRule]:
        """Each confidential variable is l-diverse in every cluster, however its values are read."""
        from sfumato.kernels.clustering.closeness import ClosenessRule

        rules = []
        for levels in read_confidential(data, self.confidential, known, engine, apart=False):
            require_diverse(levels, self.l, self.kind, self.c)
            rules.append(
                levels.make_rule(levels.variable.codes, ClosenessRule(self.kind, self.l, c=self.c))
            )
        return rules
