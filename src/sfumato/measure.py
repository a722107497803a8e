"""What every measure is: a question about one data set or about the pair. It never modifies."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, ClassVar, Literal, Self

from sfumato.data import Dataset
from sfumato.engines import Engine, engine_for, require_engine
from sfumato.errors import MeasureError
from sfumato.evidence import AT_WORST, FILLED_IN, Direction, Evidence, Subject
from sfumato.invariants import Invariant
from sfumato.io import frames
from sfumato.numbers import Number

__all__ = ["AT_WORST", "FILLED_IN", "AttackWording", "Measure", "Trial"]


@dataclass(frozen=True)
class AttackWording:
    """How the report describes an attack to a board.

    Parameters
    ----------
    title : what the attacker does.
    control : what the success is compared with.
    sentence : on its success, with `{success}` and `{control}` in per cent, any of the details by
        name, `{name_percent}` for a share among them, `{name_list}` for a list of variables.
    verdict : what is said of an attack that does better than its control. Empty: the comparison is
        no control, and nothing is called safe by it.
    against_release : the control is the release as it is, which may be unsafe itself, so that
        gaining nothing is no good news.
    remedy : what to do where it succeeds too often.
    hypothetical : it needs something that has not happened, such as a second release under another
        key. The report hatches its bar, and judges nobody by it.
    """

    title: str
    control: str
    sentence: str
    verdict: str = "beats the control"
    against_release: bool = False
    remedy: str = ""
    hypothetical: bool = False


@dataclass(frozen=True)
class Trial:
    """How an attack is tried on every release, and how much success is acceptable.

    Parameters
    ----------
    needs : the attack applies where the release has a variable of each of these roles. None: only
        where a step invites it.
    exploits : it applies where a step leaves one of these as it was (`Method.preserves`).
    number : which of its numbers is judged. Default: the one named like the measure.
    acceptable : the most of that number that a release may show unless the plan says otherwise.
        "by k": what a class of k people gives away, see `sfumato.run.lights`. None: it is
        reported, and decides nothing.
    unremarkable : the most of it that is not worth a second look. Default: what is acceptable, less
        a tenth.
    unremarkable_share : the same as a share of what is acceptable.
    seconds : about how long it takes for a million cells. A stated number, so that what is tried
        never depends on the machine.
    in_sample : what its success is where it can only be tried on some of the records (on a
        cluster): "overstated", since people are rarer there, so that too much of it decides
        nothing; "as it is"; or "unknown", so that it is not tried.
    looks_for : its parameter that says for how many people it looks, among all others. Of many
        records it looks for few first, and for more where these do not decide.
    """

    needs: tuple[str, ...] | None = None
    exploits: tuple[Invariant, ...] = ()
    number: str = ""
    acceptable: float | Literal["by k"] | None = None
    unremarkable: float | Literal["by k"] | None = None
    unremarkable_share: float = 0.9
    seconds: float = 1.0
    in_sample: Literal["overstated", "as it is", "unknown"] = "overstated"
    looks_for: str = ""


class Measure(ABC):
    """One measure of risk or of utility."""

    name: ClassVar[str]
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """Parameters that make sense on the bundled cohort, for the reference and the tests."""
    numbers: ClassVar[tuple[Number, ...]]
    """What it yields: first the value itself, named like the measure, then numbers among its
    details on which a target may be set. What each means is said here and nowhere else."""
    direction: ClassVar[Direction] = "lower"
    """Which way its value is better: follows from the first of its numbers."""
    of: ClassVar[Literal["one", "pair"]] = "one"
    """Whether it looks at one data set by itself or compares the released with the original."""
    whole: ClassVar[bool] = False
    """Whether it looks at the original with the records that a release has removed."""
    by_default: ClassVar[bool] = True
    """Whether it is taken where nobody has chosen measures."""
    picture: ClassVar[str | None] = None
    """The figure of `sf.pictures` that shows its evidence."""
    attack: ClassVar[AttackWording | None] = None
    """How the report describes it, if it is an attack that is tried."""
    trial: ClassVar[Trial | None] = None
    """How it is tried on every release, if it is an attack that is tried by default."""
    odd: ClassVar[Mapping[str, float | Mapping[int, float]]] = {}
    """What it says of "one row" and "all missing" data, held against themselves: in every example,
    or in those at these positions. What is not here it refuses with a reason."""
    runs_on: ClassVar[tuple[str, ...]] = ("local",)
    """The engines on which it runs."""
    counts_persons: ClassVar[bool] = False
    """Whether it counts persons where they have several rows. A risk that does not is refused."""
    of_secrets: ClassVar[bool] = False
    """Whether it says what people who look alike give away of a confidential variable."""
    as_written: ClassVar[bool] = False
    """Whether an attack needs variables as the step wrote them, changed by no later one."""

    aspect: ClassVar[Literal["risk", "utility"]] = "risk"
    """What a measure of another package is about; ours say it by their folder."""

    @classmethod
    def room(cls) -> str:
        """What it is about, "risk" or "utility": for ours, the folder it lives in."""
        package, *folders = cls.__module__.split(".")
        return folders[0] if package == "sfumato" else cls.aspect

    @classmethod
    def find_number(cls, name: str) -> Number | None:
        """What is declared of one of its numbers."""
        return next((number for number in cls.numbers if number.name == name), None)

    @classmethod
    def joined_numbers(cls) -> tuple[str, ...]:
        """Its numbers that are measured in the joined view of several tables; empty: none is."""
        return tuple(number.name for number in cls.numbers if number.joined != "no")

    def require_joined(self, label: str) -> None:
        """Refuse parameters that the joined view of several tables does not know."""
        del label

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            if "numbers" not in vars(cls) or cls.numbers[0].name != cls.name:
                msg = (
                    f'{cls.__name__}.numbers must begin with Number(name="{cls.name}", ...): what '
                    "its value means, and which way is safer."
                )
                raise TypeError(msg)
            cls.direction = cls.numbers[0].better
        for contract in (Measure.look, Measure.compare):
            verb, wanted = contract.__name__, signature(contract)
            if verb in vars(cls) and len(signature(vars(cls)[verb]).parameters) < len(
                wanted.parameters
            ):
                msg = f"{cls.__name__}.{verb} lacks a parameter of {verb}{wanted}."
                raise TypeError(msg)

    def measure(
        self, original: Dataset, released: Dataset | None = None, *, engine: Engine | None = None
    ) -> Evidence:
        """Measure one data set, or the released one with the original as its baseline."""
        where = engine or engine_for(original.frame)
        require_engine(self, where)
        self.require_persons(original)
        if self.of == "pair":
            if released is None:
                raise MeasureError(
                    f"'{self.name}' compares two data sets; only one was given.",
                    hint="pass the original and the released data.",
                )
            return self.compare(original, released, where)
        if released is None:
            return self.look(original, "original", where)
        self.require_persons(released, original)
        evidence = self.look(released, "released", where)
        return replace(evidence, baseline=self.look(original, "original", where).value)

    def explain_refusal(self, engine: Engine) -> str:
        """Why these parameters do not run on an engine that others run on; empty where they do."""
        del engine
        return ""

    def require_persons(self, data: Dataset, original: Dataset | None = None) -> None:
        """Refuse a risk that would count rows where a person has several.

        `original` is what released data were made from, where it is known whose its rows are.
        """
        if self.room() != "risk":
            return
        for side in (data, original):
            if (
                side is not None
                and side.schema.person is not None
                and not frames.is_in_memory(side.frame)
            ):
                raise MeasureError(
                    f"Variable '{side.schema.person}' says that a person may have several rows, "
                    f"and '{self.name}' counts persons in memory only.",
                    hint="read the data whole, or measure data with one row for each person.",
                )
        unknown = (
            original is not None and not original.units.one_row_each and not data.units.declared
        )
        if self.of == "one" and unknown:
            raise MeasureError(
                "Nothing says which released rows are one person's, so they would be counted as "
                "persons.",
                hint="evaluate the Release or its folder; or pass paired=True if the rows "
                "correspond.",
            )
        if not self.counts_persons and not data.units.one_row_each:
            raise MeasureError(
                f"'{self.name}' is not measured for persons: it would count rows, of which a "
                "person has several.",
                hint="leave it out, or measure data with one row for each person.",
            )

    def for_value(self) -> Self:
        """The same measure without what only its further numbers need; for a search."""
        return self

    def look(self, data: Dataset, subject: Subject, engine: Engine) -> Evidence:
        """Measure one data set by itself."""
        del data, engine
        raise MeasureError(f"'{self.name}' cannot look at one data set ({subject}) by itself.")

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Measure the released data against the original."""
        del original, released, engine
        raise MeasureError(f"'{self.name}' does not compare data sets.")
