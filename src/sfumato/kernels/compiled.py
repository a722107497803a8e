"""How kernels are compiled: the options of numba, in one place.

A kernel is a loop over plain arrays. numba compiles it when it is first called with arrays of
these types, which takes seconds, and keeps the machine code on disk. Three decorators:

- `compiled` for kernels that Python calls: cached on disk, run without the interpreter's lock;
- `inner` for those that only other kernels call: part of their caller's machine code;
- `inlined` for those so small that a call would cost more than the work.

The cache looks at the file of the kernel that Python calls, so what it calls should stand in the
same file: after a change elsewhere, touch that file too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit
from numba.core import event
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target

from sfumato.progress import current_progress

COMPILING = "compiling, once on this machine"
_PATIENCE = 1 << 17
"""Array elements that a kernel may work on in Python before it is compiled after all: about 2 s."""
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_BORROWING: dict[str, Any] = {"_nrt": False} if hasattr(cpu_target.options, "_nrt") else {}


def compiled(function: Any = None, *, small: int = 0, **options: Any) -> Any:
    """A kernel that Python calls.

    Parameters
    ----------
    small : arguments of up to so many array elements in all are left to Python, which has done the
        work long before a compiler is ready. The results are the same to the last bit. Such a
        kernel cannot be called by other kernels.
    options : of `numba.njit`.
    """
    if function is None:
        return lambda later: compiled(later, small=small, **options)
    _announce_compilation()
    kernel = njit(cache=True, nogil=True, **options)(function)
    _guard_cache(kernel)
    return SmallInPython(kernel, small) if small else kernel


def _guard_cache(kernel: Any) -> None:
    """Let one process at a time read or write what is kept of a kernel on disk.

    numba numbers the files of a kernel by an index that it reads, extends and writes back. Two
    processes that compile it for different types at once give both the same number, and one of them
    later runs the machine code of the other: a wrong result, or a crash.
    """
    file = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
    if file is not None and hasattr(file, "_index_path"):
        path = f"{file._index_path}.lock"  # noqa: SLF001 - numba has no door for this
        file.load, file.save = _run_alone(file.load, path), _run_alone(file.save, path)


if sys.platform == "win32":  # pragma: no cover - not our machines

    def _lock(handle: int) -> None:
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_LOCK, 1)

else:

    def _lock(handle: int) -> None:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)


def _run_alone(function: Callable[..., Any], path: str) -> Callable[..., Any]:
    """The function, with a lock on a file held as long as it runs."""

    def run(*arguments: Any) -> Any:
        try:
            handle = Path(path).open("ab")  # noqa: SIM115 - closed below
        except OSError:  # a folder that nobody can write into has no writers
            return function(*arguments)
        with handle:
            _lock(handle.fileno())  # closing the file lets it go
            return function(*arguments)

    return run


def inner(function: Any = None, *, borrowing: bool = False, **options: Any) -> Any:
    """A kernel that only other kernels call.

    Parameters
    ----------
    borrowing : no reference counts, where numba lets us leave them out: counting references to the
        same arrays, above all to those in tuples, takes up to a third of the time. A kernel that
        makes an array cannot be compiled that way.
    options : of `numba.njit`.
    """
    if function is None:
        return lambda later: inner(later, borrowing=borrowing, **options)
    return njit(**_INNER, **(_BORROWING if borrowing else {}), **options)(function)


def inlined(function: Any = None, *, borrowing: bool = False, **options: Any) -> Any:
    """An inner kernel that becomes part of its caller, without a call."""
    if function is None:
        return lambda later: inlined(later, borrowing=borrowing, **options)
    return inner(function, borrowing=borrowing, forceinline=True, **options)


class SmallInPython:
    """A kernel that Python runs itself as long as there is little to do.

    Parameters
    ----------
    kernel : as numba made it.
    small : elements of all arrays together up to which Python runs it.
    """

    def __init__(self, kernel: Any, small: int) -> None:
        self.kernel, self.small = kernel, small
        self.__doc__, self.__name__ = kernel.__doc__, kernel.__name__
        self._elements = 0

    def __call__(self, *arguments: Any) -> Any:
        """Run it, in Python or compiled."""
        size = sum(_count_elements(argument) for argument in arguments)
        if size > self.small or self._elements + size > _PATIENCE:
            return self.kernel(*arguments)
        self._elements += size
        with np.errstate(over="ignore"):  # whole numbers wrap around, as compiled ones do
            return run_in_python(self.kernel)(*arguments)


def _count_elements(argument: Any) -> int:
    if isinstance(argument, tuple):
        return sum(_count_elements(part) for part in argument)
    return argument.size if isinstance(argument, np.ndarray) else 0


@cache
def run_in_python(kernel: Any) -> Callable[..., Any]:
    """A kernel as Python runs it, with everything that it calls.

    An intrinsic (LLVM's own words) has its meaning in Python in the attribute `in_python`.
    """
    function = kernel.py_func
    names: dict[str, Any] = dict(function.__globals__)
    translated = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    for name in function.__code__.co_names:
        value: Any = names.get(name)
        if isinstance(value, Dispatcher):
            names[name] = run_in_python(value)
        elif hasattr(value, "in_python"):
            names[name] = value.in_python
    return translated


class _Announcer(event.Listener):
    """Reports that one of our kernels is being compiled: nothing else happens for seconds."""

    def __init__(self) -> None:
        self._depth = 0

    def on_start(self, event: Any) -> None:
        """Report the kernel that Python called, not those that it calls in turn."""
        if self._depth == 0 and _is_ours(event):
            current_progress()(COMPILING, 0, 1)
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """Report that it is ready."""
        self._depth -= 1
        if self._depth == 0 and _is_ours(event):
            current_progress()(COMPILING, 1, 1)


def _is_ours(event: Any) -> bool:
    return bool(event.data["dispatcher"].py_func.__module__.startswith("sfumato."))


@cache
def _announce_compilation() -> None:
    event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]
