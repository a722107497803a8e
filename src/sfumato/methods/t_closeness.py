"""Clusters that tell nothing about confidential values, as far as a bound allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sfumato.clustered.cells import Clusters
from sfumato.clustered.coded import Variable
from sfumato.clustered.shape import Clustered
from sfumato.clustered.ways import cut, person_ranks, spread
from sfumato.confidential.chosen import confidential
from sfumato.confidential.orders import Distance, Spread
from sfumato.confidential.orders import spread as distanced
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MethodError
from sfumato.parameters import parameters

if TYPE_CHECKING:
    from sfumato.kernels.rules import Rule


@parameters
class TCloseness(Clustered):
    """Make clusters of at least k in which confidential values are spread as in all records.

    Question: how much does belonging to a cluster tell about a confidential value?
    Assumes: the outsider knows `variables` and the distribution in all records. In every cluster
    the distribution of each confidential variable is at most t away from that, by the earth
    mover's distance: how much of it must be moved, and how far, where the way from one end of the
    values to the other is 1. Missing is one value, below all others. The confidential values
    themselves stay as they are.

    Parameters
    ----------
    variables : what is generalised. Default: all whose role is "quasi".
    confidential : the confidential variable, or several. Default: all whose role is "sensitive".
    k : the fewest records in a cluster.
    t : the largest distance; 0 would need one cluster of all records. Default: 0.5 / k, about
        what clusters of k can reach.
    clustering : "mondrian" cuts the data as long as both halves keep k and t. "spread" is
        Algorithm S4 as published, for one ordered confidential variable, with the remainder
        spread and t measured, so that the bound holds for every number of records.
    distance : between two confidential values: "ordered" (by rank), "equal" (any two are as
        far apart), "hierarchical" (by the first common group) or "auto", by their kind.
    output : what a cluster gets; see `k_anonymity`.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [20, 24, 30, 61, 66, 70], "charge": [1, 2, 3, 3, 2, 1]})
    >>> data = sf.Dataset(frame, sf.Schema({"age": "quasi", "charge": "sensitive"}))
    >>> TCloseness(k=2, t=0.1).apply(data).frame["age"].to_list()
    ['[20;30]', '[20;30]', '[20;30]', '[61;70]', '[61;70]', '[61;70]']

    References: Li, Li & Venkatasubramanian (2007), ICDE; Sánchez, Martínez & Domingo-Ferrer
    (2016), Science 351:1274, Algorithm S4, Eq. 6-8.
    """

    name = "t_closeness"
    reports = ("closeness", "information_loss")
    examples = (
        {
            "variables": ["birth_date", "sex", "region", "household_size"],
            "confidential": ["glucose", "diagnosis"],
            "t": 0.3,
        },
        {
            "variables": ["birth_date", "household_size"],
            "confidential": "systolic",
            "k": 3,
            "clustering": "spread",
        },
    )
    confidential: str | list[str] | None = None
    t: Annotated[float, Field(ge=0, le=1)] | None = None
    clustering: Literal["mondrian", "spread"] = "mondrian"
    distance: Distance = "auto"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.clustering == "spread" and self.distance not in ("auto", "ordered"):
            msg = 'clustering "spread" knows only the ordered distance.'
            raise ValueError(msg)
        return self

    def clusters(self, data: Dataset, coded: Sequence[Variable], engine: Engine) -> Clusters:
        """Clusters that keep k and t."""
        del engine
        # The very codes, order and tree by which `closeness` measures.
        secret = [
            distanced(data, one, self.distance)
            for one in confidential(data, self.confidential, coded)
        ]
        if self.clustering == "mondrian":
            rules = [self._rule(one, at) for at, one in enumerate(secret)]
            codes = np.column_stack([one.codes for one in secret])
            return cut(coded, self.k, sensitive=codes, rules=rules)
        if len(secret) > 1 or secret[0].distance != "ordered":
            raise MethodError(
                'The clustering "spread" takes one confidential variable, with an order; '
                f"{', '.join(repr(one.name) for one in secret)} will not do.",
                hint='name one, or choose clustering = "mondrian".',
            )
        return spread(coded, secret[0].codes, self.k, self.t, person_ranks(data))

    def _rule(self, one: Spread, column: int) -> Rule:
        from sfumato.kernels.rules import Rule

        limit = 0.5 / self.k if self.t is None else self.t
        return Rule(
            "ordered" if one.distance == "ordered" else "equal", limit, column, tree=one.tree
        )
