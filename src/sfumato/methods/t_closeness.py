"""Clusters that tell nothing about confidential values, as far as a bound allows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sfumato.cells.ground_distance import Distance, choose_ground_distance
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MethodError, PlanError
from sfumato.method import Strength
from sfumato.methods.clustering.method import ClusteringMethod
from sfumato.methods.clustering.microaggregation import (
    Clustering,
    ConfidentialLevels,
    read_confidential,
    require_diverse,
)
from sfumato.methods.clustering.variables import ConfidentialRule, Variable
from sfumato.parameters import parameters

Closest = Annotated[float, Field(ge=0, le=1)]
Fewest = Annotated[int, Field(ge=1)]


@parameters
class TCloseness(ClusteringMethod):
    """Make clusters of at least k in which confidential values are spread as in all records.

    Question: how much does belonging to a cluster tell about a confidential value?
    Assumes: the outsider knows `variables` and the distribution in all records. In every cluster
    the distribution of each confidential variable is at most t away from that, by the earth
    mover's distance: how much of it must be moved, and how far, where the way from one end of the
    values to the other is 1. Missing is one value, below all others, and the bound also holds
    among the records that have a value. The confidential values themselves stay as they are.

    Parameters
    ----------
    variables : what is generalised. Default: all whose role is "quasi".
    confidential : confidential variable, or several. Default: those that `t` or `l` name, else all
        whose role is "sensitive".
    k : fewest records in a cluster; persons, where rows belong to persons (see `k_anonymity`). The
        confidential variable must then be constant within each.
    t : largest distance, for all or by variable: `{ income = 0.2 }`; 0 would need one cluster of
        all records, and clusters of k hardly come below 0.5 / k. With "spread" the default is the
        bound that clusters of k keep.
    l : fewest different values in a cluster, for all or by variable; missing is none.
    clustering : how records are grouped: "mondrian" cuts the data as long as both halves keep k and
        t. "spread" is Algorithm S4 as published, for one ordered confidential variable, with the
        remainder spread and t measured, so that the bound holds for every number of records.
    distance : distance of two confidential values: "ordered" (by rank), "equal" (any two are as far
        apart), "hierarchical" (by the first common group) or "auto", by their kind.
    output : what a cluster gets; see `k_anonymity`.
    ends : where ranges end; see `k_anonymity`.
    grid : grid of the ranges; see `k_anonymity`.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [20, 24, 30, 61, 66, 70], "charge": [1, 2, 3, 3, 2, 1]})
    >>> data = sf.Dataset(frame, sf.Schema({"age": "quasi", "charge": "sensitive"}))
    >>> TCloseness(k=2, t=0.1).apply(data).frame["age"].to_list()
    ['[20;39]', '[20;39]', '[20;39]', '[60;74]', '[60;74]', '[60;74]']

    References: Li, Li & Venkatasubramanian (2007), ICDE; Sánchez, Martínez & Domingo-Ferrer
    (2016), Science 351:1274, Algorithm S4, Eq. 6-8.
    """

    name = "t_closeness"
    keeps_groups = False
    strength = Strength("k")
    treats = "records"
    runs_on = ("local", "streaming", "spark")
    reports = ("closeness", "information_loss")
    odd = {"empty": "refused", "one row": "refused", "all missing": (1, 2), "constant": (1,)}
    examples = (
        {
            "variables": ["birth_date", "sex", "region", "household_size"],
            "confidential": ["glucose", "diagnosis"],
            "t": 0.3,
        },
        {
            "variables": ["birth_date", "sex", "household_size"],
            "t": {"glucose": 0.35},
            "l": {"diagnosis": 2},
        },
        {
            "variables": ["birth_date", "household_size"],
            "confidential": "systolic",
            "k": 3,
            "clustering": "spread",
        },
    )
    confidential: str | list[str] | None = None
    t: Closest | dict[str, Closest] | None = None
    l: Fewest | dict[str, Fewest] | None = None  # noqa: E741 - the literature's letter
    clustering: Literal["mondrian", "spread"] = "mondrian"
    distance: Distance = "auto"

    @model_validator(mode="after")
    def _check_clustering(self) -> Self:
        if self.clustering == "mondrian" and self.t is None:
            msg = 't must be given, such as 0.2; only clustering "spread" has one of its own.'
            raise ValueError(msg)
        if self.clustering == "spread" and self.distance not in ("auto", "ordered"):
            msg = 'clustering "spread" knows only the ordered distance.'
            raise ValueError(msg)
        if self.clustering == "spread" and (self.l is not None or isinstance(self.t, dict)):
            msg = 'clustering "spread" takes one t and no l.'
            raise ValueError(msg)
        return self

    def choose_clustering(self, variables: Sequence[Variable], records: int) -> Clustering:
        """As the plan says."""
        del variables, records
        return self.clustering

    def rules(self, data: Dataset, known: Sequence[str], engine: Engine) -> list[ConfidentialRule]:
        """The confidential variables keep t, and l, in every cluster, however they are read."""
        named = self._find_confidential(data)
        apart = True if self.clustering == "mondrian" else None
        readings = read_confidential(data, named, known, engine, apart=apart)
        names = {levels.variable.name for levels in readings}
        for bound in (self.t, self.l):
            if unknown := set(bound if isinstance(bound, dict) else ()) - names:
                raise PlanError(
                    f"A bound is named for {', '.join(map(repr, sorted(unknown)))}, which is not "
                    "among the confidential variables.",
                    hint="name it in `confidential`, or leave `confidential` out.",
                )
        close = [rule for levels in readings for rule in self._keep_close(data, levels)]
        if self.clustering == "mondrian":
            diverse = (
                [] if self.l is None else read_confidential(data, named, known, engine, apart=False)
            )
            return [*close, *(rule for levels in diverse for rule in self._keep_diverse(levels))]
        self._require_ordered_variable(data, readings)
        return close

    def _require_ordered_variable(
        self, data: Dataset, readings: Sequence[ConfidentialLevels]
    ) -> None:
        first = choose_ground_distance(data, readings[0].variable, self.distance)
        if len(readings) > 1 or first.distance != "ordered":
            raise MethodError(
                'The clustering "spread" takes one confidential variable, with an order; '
                f"{', '.join(repr(levels.variable.name) for levels in readings)} will not do.",
                hint='name one, or choose clustering = "mondrian".',
            )
        if first.missing:
            raise MethodError(
                'The clustering "spread" needs a value of each record, and the confidential '
                f"variable '{first.name}' has missing values.",
                hint='choose clustering = "mondrian", or fill them in first.',
            )

    def _find_confidential(self, data: Dataset) -> list[str] | str | None:
        """The variables named, or those that a bound is named for."""
        if self.confidential is not None:
            return self.confidential
        bounds = [bound for bound in (self.t, self.l) if bound is not None]
        tables = [bound for bound in bounds if isinstance(bound, dict)]
        if not bounds or len(tables) < len(bounds):
            return None
        named = dict.fromkeys(name for table in tables for name in table)
        data.schema.require(named)
        return list(named)

    def _keep_close(self, data: Dataset, levels: ConfidentialLevels) -> Iterator[ConfidentialRule]:
        """The bound on a variable, with missing as a value and without."""
        from sfumato.kernels.clustering.closeness import ClosenessRule

        # The very codes, order and tree by which `closeness` measures.
        variable = choose_ground_distance(data, levels.variable, self.distance)
        t = _bound_of(self.t, variable.name)
        if t is None and self.clustering == "mondrian":
            return
        limit = math.inf if t is None else t
        kind: Literal["ordered", "equal"] = "ordered" if variable.distance == "ordered" else "equal"
        yield levels.make_rule(variable.codes, ClosenessRule(kind, limit, tree=variable.tree))
        if variable.missing and len(variable.counts) > 1:
            present = variable.leave_out_missing()
            yield levels.make_rule(present.codes, ClosenessRule(kind, limit, tree=present.tree))

    def _keep_diverse(self, levels: ConfidentialLevels) -> Iterator[ConfidentialRule]:
        from sfumato.kernels.clustering.closeness import ClosenessRule

        least = _bound_of(self.l, levels.variable.name)
        if least is not None:
            require_diverse(levels, least)
            yield levels.make_rule(levels.variable.codes, ClosenessRule("distinct", least))


def _bound_of(bound: float | dict[str, float] | dict[str, int] | None, name: str) -> float | None:
    """The bound of one variable."""
    return bound.get(name) if isinstance(bound, dict) else bound
