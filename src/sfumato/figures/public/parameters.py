"""What figures have in common: each parameter is described here once, with its type and default."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

from sfumato.catalogue import read_parameter_docs
from sfumato.errors import did_you_mean

if TYPE_CHECKING:
    from sfumato.figures.public.protection import Keyed, Protecting, Small
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

Draw = TypeVar("Draw", bound=Callable[..., Any])
DEFAULTS: Mapping[str, Any] = {"sd_share": 0.25, "small": "hide"}
"""Of the others it is None, which leaves them to the figure or to the rules."""
_SECTION = "Parameters\n----------\n"


class Ruled(TypedDict, total=False):
    """What a figure takes that is held to the rules of the house."""

    k: int | None
    title: str | None
    rules: Rules | None
    log: Log | None


class Noisy(Ruled, total=False):
    """And that may have noise."""

    sd_share: float
    key: Keyed


class Shielded(Noisy, total=False):
    """And whose protection one chooses."""

    protection: Protecting | None


class Binned(Shielded, total=False):
    """And that counts in cells.

    Parameters
    ----------
    data : a frame, a Dataset or a release.
    x : the variable on the horizontal axis.
    y : the variable on the vertical axis.
    hue : variable that forms groups; each is protected by itself.
    by : variable that forms groups; each is protected by itself.
    limits : limits of the two axes: ((low, high), (low, high)). Default: round numbers.
    protection : kind of protection: "deterministic" (default), "noise", "suppress", "generalise",
        or a method.
    k : fewest records behind anything drawn, or that share a centre. Default: the rules' k,
        which is 3.
    bins : number of cells an axis. Default: about 30, or 15 for "generalise".
    sd_share : SD of the noise as a share of the variable's. Default: 0.25.
    key : the custodian's secret, for noise that is the same next time.
    small : what is done with small cells: "show" those of fewer than k protected values, where
        values are protected themselves; else "hide".
    title : title of the figure.
    rules : the house rules.
    log : where the output is listed.
    """

    bins: int | None
    small: Small


COMMON: Mapping[str, str] = read_parameter_docs(inspect.getdoc(Binned) or "")
"""What is said of each, in the order in which signatures have them."""


def takes(common: type[Any]) -> Callable[[Draw], Draw]:
    """Give a function what its figure has in common with others: in its signature and its help.

    What its own docstring says of a parameter stands; what it leaves out is filled in.
    """

    def extend(draw: Draw) -> Draw:
        own, types = inspect.signature(draw), common.__annotations__
        every = dict(list(own.parameters.items())[:-1])
        for name in sorted(types, key=[*COMMON, *types].index):
            every[name] = inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name),
                annotation=types[name].__forward_arg__,
            )  # fmt: skip

        @wraps(draw)
        def checked(*args: Any, **settings: Any) -> Any:
            for name in settings:
                if name not in every:
                    msg = f"{draw.__name__}() got an unexpected keyword argument '{name}'."
                    raise TypeError(f"{msg} Hint: {did_you_mean(name, every)}")
            return draw(*args, **settings)

        signature = own.replace(parameters=list(every.values()))
        checked.__signature__ = signature  # type: ignore[attr-defined]
        checked.__annotations__ = {
            **{name: parameter.annotation for name, parameter in every.items()},
            "return": own.return_annotation,
        }
        checked.__doc__ = _complete(draw.__doc__ or "", every)
        return cast("Draw", checked)

    return extend


def _complete(doc: str, names: Iterable[str]) -> str:
    """A docstring that says something of every parameter, in the order of the signature."""
    text = inspect.cleandoc(doc)
    head, mark, after = text.partition(_SECTION)
    said = {**COMMON, **read_parameter_docs(text)}
    lines = [fill(f"{name} : {said.get(name)}", 96, subsequent_indent="    ") for name in names]
    return head + mark + "\n".join(lines) + "\n\n" + after.partition("\n\n")[2]
