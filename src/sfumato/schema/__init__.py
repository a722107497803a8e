"""The schema: the role and the kind of every variable."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, get_args

from sfumato.errors import SchemaError, did_you_mean
from sfumato.parameters import write_short
from sfumato.schema.hierarchies import Hierarchy

Role = Literal["direct", "person", "quasi", "sensitive", "other", "weight", "cluster"]
Kind = Literal["continuous", "integer", "nominal", "ordinal", "date", "text"]
CellForm = Literal["values", "generalised", "pseudonyms", "deidentified", "lists"]

ROLES: dict[str, str] = {
    "direct": "identifies a person by itself (name, e-mail, record number)",
    "person": "says which person a row belongs to; a person may have several rows",
    "quasi": "could be known to an outsider and points to a person in combination",
    "sensitive": "what nobody should learn about a person",
    "other": "neither known to outsiders nor sensitive",
    "weight": "survey weight: how many people of the population a record represents",
    "cluster": "the group a record belongs to (school, household, site)",
}
KINDS: dict[str, str] = {
    "continuous": "measured numbers",
    "integer": "whole numbers",
    "nominal": "categories without an order",
    "ordinal": "categories with an order",
    "date": "calendar dates or times",
    "text": "free text and codes",
}
IDENTIFYING: tuple[Role, ...] = ("direct", "person")
"""The roles that point to a person by themselves."""
NOT_DECLARED = ("reason", "formula")
"""What a plan does not say of a variable: why it was suggested, and what a step notes."""
_NUMERIC = ("continuous", "integer")
_ENDS = 2
_LARGEST = 1e300
_SHOWN = 4
"""Variables that the repr of a schema names."""
_MOST_DIGITS = 15

Misfit = tuple[str, str]
"""What does not fit, and a hint ("" where there is none)."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """What is known of one variable. `None` means: nobody has said yet.

    Parameters
    ----------
    role : what the variable discloses; see `ROLES`.
    kind : how its values behave; see `KINDS`.
    domain : the values it may take: `(lowest, highest)` for numbers and dates, all levels
        (in order, when ordinal) for categories. Declared, never read off the data.
    hierarchy : for each value its ever broader groups, `{"01067": ("010**", "01***")}`; or ranges
        of numbers or days by where they begin, `{"low": 0, "high": 99, "breaks": [[18, 65]]}`.
    accessibility : how easily an outsider could learn it, from 0 (hardly) to 1 (anybody knows).
    missing : codes that mean "missing", such as -9 or 999.
    identity : whether it says who a record is, so that everything random follows it. Where no
        variable does, an identifier is looked for among those of which it is not denied. False
        also says of a direct identifier whose values repeat that different people share them.
    cells : "generalised" if `[24;28]`, `{a;b}`, `937**` and `*` stand for several values,
        "pseudonyms" if keyed codes stand for identifiers, "deidentified" if names and numbers were
        taken out of free text, "lists" if a cell holds several items (`E11;I10`). Steps that write
        such cells declare it. In all other variables such text is a value like any.
    label : what the variable is called in words, such as "Age of respondent". Stata and SPSS files
        bring theirs.
    labels : what its codes stand for, `{"1": "male", "2": "female"}`, those for "missing" as well.
    unit : in which it is measured, such as "cm". The codebook tells it to analysts.
    digits : decimals that its numbers have when they are released with noise, or as averages; 15
        keeps all. By default as many as nearly all original values have.
    formula : how it was made of other released variables; step `derive` says so.
    reason : why this was suggested.

    Examples
    --------
    >>> import sfumato as sf
    >>> age = sf.Column(role="quasi", kind="integer", domain=(18, 90), unit="years")
    >>> sf.Schema({"age": age, "diagnosis": "sensitive"})["age"].unit
    'years'
    """

    role: Role | None = None
    kind: Kind | None = None
    domain: tuple[Any, ...] | None = None
    hierarchy: Mapping[str, tuple[str, ...]] | None = None
    accessibility: float | None = None
    missing: tuple[Any, ...] = ()
    identity: bool | None = None
    cells: CellForm | None = None
    label: str = ""
    labels: Mapping[str, str] | None = field(default=None, hash=False)
    unit: str = ""
    digits: int | None = None
    formula: str = ""
    reason: str = field(default="", compare=False)

    __repr__ = write_short

    def __post_init__(self) -> None:
        if isinstance(self.missing, str) or isinstance(self.domain, str):
            hint = 'for instance missing = ["-9"].'
            raise SchemaError("domain and missing are lists.", hint=hint)
        if self.domain is not None:
            object.__setattr__(self, "domain", tuple(self.domain))
        object.__setattr__(self, "missing", tuple(self.missing))
        if self.hierarchy is not None:
            if isinstance(self.hierarchy, str):
                hint = "read it first: sfumato.hierarchies.read(path)."
                raise SchemaError("hierarchy is a mapping, not a path.", hint=hint)
            object.__setattr__(self, "hierarchy", Hierarchy.of(self.hierarchy))
        if self.label or self.labels is not None:
            self._check_labels()

    def _check_labels(self) -> None:
        labels = {} if self.labels is None else self.labels
        if not isinstance(self.label, str) or not isinstance(labels, Mapping):
            hint = 'for instance label = "Sex", labels = { 1 = "male", 2 = "female" }.'
            raise SchemaError("a label is text, and labels give a text for each code.", hint=hint)
        texts = {str(code): str(text) for code, text in labels.items()}
        object.__setattr__(self, "labels", texts or None)

    @property
    def bounds(self) -> tuple[Any, Any] | None:
        """Lowest and highest value a number or date may take, where declared."""
        if self.domain is None or self.kind not in (*_NUMERIC, "date"):
            return None
        return self.domain[0], self.domain[-1]

    @property
    def levels(self) -> tuple[Any, ...] | None:
        """All levels of a categorical variable, where declared."""
        return self.domain if self.kind in ("nominal", "ordinal") else None

    @property
    def generalised(self) -> bool:
        """Whether cells may be ranges, sets, masks or `*`; otherwise such text is a value."""
        return self.cells == "generalised"

    def misfits(self, name: str) -> Iterator[Misfit]:
        """Say what is wrong with this declaration by itself."""
        if self.role is not None and self.role not in ROLES:
            yield (
                f"variable '{name}' has no known role '{self.role}'",
                did_you_mean(self.role, ROLES),
            )
        if self.kind is not None and self.kind not in KINDS:
            yield (
                f"variable '{name}' has no known kind '{self.kind}'",
                did_you_mean(self.kind, KINDS),
            )
        if self.cells is not None and self.cells not in get_args(CellForm):
            yield (
                f"variable '{name}' has no known cells '{self.cells}'",
                did_you_mean(self.cells, get_args(CellForm)),
            )
        if not all(issubclass(kind, (int, float, str)) for kind in map(type, self.missing)):
            yield f"variable '{name}': missing codes are numbers or text", ""
        if not isinstance(self.unit, str):
            yield f"variable '{name}': a unit is text", ""
        if self.digits is not None and (
            type(self.digits) is not int or not 0 <= self.digits <= _MOST_DIGITS
        ):
            yield f"variable '{name}': digits is a whole number from 0 to 15", ""
        if self.identity not in (None, True, False):
            yield f"variable '{name}': identity is true or false", ""
        if self.accessibility is not None and not 0 <= self.accessibility <= 1:
            yield f"variable '{name}': accessibility must lie between 0 and 1", ""
        if isinstance(self.hierarchy, Hierarchy) and self.hierarchy.flaw:
            yield f"variable '{name}': {self.hierarchy.flaw}", ""
        yield from self._find_domain_misfits(name)

    def _find_domain_misfits(self, name: str) -> Iterator[Misfit]:
        if self.domain is None:
            return
        if self.kind is None:
            yield (
                f"variable '{name}' has a domain but no kind",
                'add, for instance, kind = "integer".',
            )
        elif self.kind in (*_NUMERIC, "date"):
            wanted = (dt.date, dt.datetime) if self.kind == "date" else (int, float)
            if len(self.domain) != _ENDS or not all(isinstance(end, wanted) for end in self.domain):
                yield f"variable '{name}': the domain of a {self.kind} is [lowest, highest]", ""
            elif not _are_finite(self.domain):
                yield f"variable '{name}': the domain's ends must be finite", ""
            elif not self.domain[0] <= self.domain[1]:
                yield f"variable '{name}': the domain's lowest value exceeds its highest", ""
        elif len(set(map(str, self.domain))) != len(self.domain) or not self.domain:
            yield f"variable '{name}': the domain lists no level, or one of them twice", ""

    def declared(self) -> dict[str, Any]:
        """The fields that somebody has set, as plain values."""
        declaration: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in NOT_DECLARED or value is None or value in ((), ""):
                continue
            if item.name == "hierarchy":
                value = Hierarchy.of(value).declare()
            declaration[item.name] = list(value) if isinstance(value, tuple) else value
        return declaration


def _are_finite(ends: tuple[Any, ...]) -> bool:
    return all(not isinstance(end, (int, float)) or abs(end) <= _LARGEST for end in ends)


class Schema(Mapping[str, Column]):
    """The variables, in order, each with its `Column`. Frozen; wrong declarations fail at once.

    Examples
    --------
    >>> schema = Schema({"age": "quasi", "class": Column(role="quasi", kind="nominal")})
    >>> schema.having("quasi")
    ('age', 'class')
    """

    def __init__(self, columns: Mapping[str, Column | Role | None] | None = None) -> None:
        self._columns: dict[str, Column] = {
            name: column if isinstance(column, Column) else Column(role=column)
            for name, column in (columns or {}).items()
        }
        wrong = [misfit for name, column in self.items() for misfit in column.misfits(name)]
        if len(persons := self.having("person")) > 1:
            names = ", ".join(f"'{name}'" for name in persons)
            hint = 'keep it for one of them; the others have the role "direct".'
            wrong.append((f"only one variable can have the role person, not {names}", hint))
        if wrong:
            raise _combine_misfits(wrong)

    @classmethod
    def infer(cls, frame: Any, *, known: Schema | None = None) -> Schema:
        """Suggest a role and a kind for every variable of a frame, with a reason for each.

        Nothing is applied: read the reasons, correct what is wrong, and pass the schema on.
        What is not recognised keeps the role `None`. `known` is what the file itself declares, such
        as labels (`data.schema` of what was read).
        """
        from sfumato.schema.inference import suggest

        return cls(suggest(frame, known))

    def __getitem__(self, name: str) -> Column:
        try:
            return self._columns[name]
        except KeyError:
            hint = did_you_mean(name, self._columns)
            raise SchemaError(f"variable '{name}' is not in the schema.", hint=hint) from None

    def get(self, name: str, default: Any = None) -> Any:
        """The declaration of a variable, or the default where there is none."""
        return self._columns.get(name, default)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and list(self.items()) == list(other.items())

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        roles = [f"{name}: {column.role}" for name, column in self.items()]
        more = f", … {len(roles) - _SHOWN} more" if len(roles) > _SHOWN else ""
        return f"Schema({', '.join(roles[:_SHOWN])}{more})"

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """The variables whose role nobody has stated."""
        return tuple(name for name, column in self.items() if column.role is None)

    @cached_property
    def person(self) -> str | None:
        """The variable that says which person a row belongs to, where one does."""
        return next(iter(self.having("person")), None)

    @cached_property
    def identifiers(self) -> tuple[str, ...]:
        """The variables that point to a person by themselves, and must not leave as they are.

        Pseudonyms are none: only the holder of the key knows whom they stand for.

        Examples
        --------
        >>> Schema({"name": "direct", "patient": "person", "age": "quasi"}).identifiers
        ('name', 'patient')
        """
        return tuple(
            name
            for name, column in self.items()
            if column.role in IDENTIFYING and column.cells != "pseudonyms"
        )

    def having(self, *roles: Role) -> tuple[str, ...]:
        """The variables with one of these roles, in order."""
        return tuple(name for name, column in self.items() if column.role in roles)

    def of_kind(self, *kinds: Kind) -> tuple[str, ...]:
        """The variables of one of these kinds, in order."""
        return tuple(name for name, column in self.items() if column.kind in kinds)

    def with_columns(self, columns: Mapping[str, Column]) -> Schema:
        """The same schema with some variables declared anew or added at the end."""
        return Schema({**self._columns, **columns}) if columns else self

    def over(self, columns: Mapping[str, Column]) -> Schema:
        """The same schema with declarations laid over it: what they leave open stays."""
        return self.with_columns(
            {
                name: Column(**{**_list_set_fields(self[name]), **_list_set_fields(column)})
                for name, column in columns.items()
            }
        )

    def changed(self, names: Iterable[str], **changes: Any) -> Schema:
        """The same schema with some fields of some variables changed."""
        return self.with_columns({name: replace(self[name], **changes) for name in names})

    def without(self, names: Iterable[str]) -> Schema:
        """The same schema less some variables."""
        gone = set(names)
        return Schema({name: column for name, column in self.items() if name not in gone})

    def completed(self, kinds: Mapping[str, Kind | None]) -> Schema:
        """Lay this schema over data: the data's order, and their kinds where none is declared.

        A variable that the data have and the schema does not is there with no role; one that
        the schema has and the data do not is an error. All errors come together.
        """
        wrong = [
            (f"variable '{name}' is not in the data", did_you_mean(name, kinds))
            for name in self
            if name not in kinds
        ]
        if wrong:
            raise _combine_misfits(wrong)
        # The order is that of the data.
        known = {name: self._columns.get(name, Column()) for name in kinds}
        return Schema(
            {
                name: column if column.kind else replace(column, kind=kinds[name])
                for name, column in known.items()
            }
        )

    def require(self, names: Iterable[str]) -> None:
        """Fail, naming all of them, if some of these variables are not in the schema."""
        wrong = [
            (f"variable '{name}' is not in the data", did_you_mean(name, self))
            for name in names
            if name not in self
        ]
        if wrong:
            raise _combine_misfits(wrong)


def _list_set_fields(column: Column) -> dict[str, Any]:
    """The fields of a declaration that somebody has set."""
    return {name: value for name, value in vars(column).items() if value not in (None, (), "")}


def _combine_misfits(wrong: list[Misfit]) -> SchemaError:
    if len(wrong) == 1:
        what, hint = wrong[0]
        return SchemaError(f"{what}.", hint=hint)
    lines = "".join(f"\n  - {what}." + (f" Hint: {hint}" if hint else "") for what, hint in wrong)
    return SchemaError(f"{len(wrong)} things in the schema do not match the data:{lines}")
