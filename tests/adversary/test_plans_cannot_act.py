"""SECURITY.md: "A plan from a stranger cannot write, run or fetch anything."

Every field of a plan in turn gets hostile content, and the plan is then loaded, used to read the
data and carried out, as `sfumato protect` does. Meanwhile Python's audit events are watched, and
canaries that also notice what native code does: a listener on the network, a folder in which
nothing may appear or change, and a secret file that nothing may read.
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sfumato as sf
from sfumato import catalogue
from sfumato.errors import SfumatoError
from sfumato.io import require_options
from sfumato.plan import Writing

SECRET = "7f3a-the-content-of-a-file-that-is-nobodys-business"  # noqa: S105 - a canary
EVENTS: list[tuple[str, str]] = []
WATCHING = threading.Event()
ALLOWED: list[str] = []
SECRETS: list[str] = []
ACTIONS = {
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty",
    "os.startfile", "pty.spawn", "socket.connect", "socket.bind", "socket.sendto",
    "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request", "http.client.connect",
    "ftplib.connect", "smtplib.connect", "os.remove", "os.rename", "os.rmdir", "os.mkdir",
    "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "shutil.copyfile",
    "shutil.move", "shutil.rmtree", "shutil.make_archive", "ctypes.dlopen", "winreg.SetValue",
    "code.__new__", "pickle.find_class", "marshal.loads", "marshal.load", "webbrowser.open",
}  # fmt: skip
CODE = "__import__('os').system('touch {folder}/mark')"


def _watch(event: str, arguments: tuple[Any, ...]) -> None:  # noqa: C901 - one case per event
    if not WATCHING.is_set():
        return
    text = str(arguments)[:500]
    # The compiled kernels' own cache, which is filled by whatever runs first
    if "numba" in text or "__pycache__" in text:
        return
    if event == "open":
        path, _, flags = arguments
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        inside = any(str(path).startswith(folder) for folder in ALLOWED)
        if (writes and not inside and not isinstance(path, int)) or str(path) in SECRETS:
            EVENTS.append((event, text))
    elif event == "exec":
        # To parse a text as a condition is no harm; to run it is
        code = arguments[0]
        if code.co_filename.startswith("<") and "__import__" in code.co_names:
            EVENTS.append((event, text))
    elif event == "pickle.find_class":  # compiled kernels are kept pickled
        if arguments[0] in {"os", "posix", "nt", "subprocess", "hostile"}:
            EVENTS.append((event, text))
    elif event == "import" and str(arguments[0]).startswith("hostile"):
        EVENTS.append((event, text))
    elif event in ACTIONS and not any(folder in text for folder in ALLOWED):
        # Numba and others load what they compiled; that is not the plan's doing
        if event in {"marshal.loads", "code.__new__", "ctypes.dlopen"} and "hostile" not in text:
            return
        EVENTS.append((event, text))


sys.addaudithook(_watch)


@contextmanager
def watching(*allowed: Path) -> Iterator[None]:
    EVENTS.clear()
    ALLOWED[:] = [str(folder) for folder in allowed]
    WATCHING.set()
    try:
        yield
    finally:
        WATCHING.clear()


@dataclasses.dataclass
class Canaries:
    """Data, a secret, a folder in which nothing may change, and a listener."""

    folder: Path
    work: Path
    port: int
    visits: list[str]

    def list_files(self) -> list[tuple[str, int, int]]:
        return sorted(
            (str(path), path.stat().st_size, path.stat().st_mtime_ns)
            for path in self.folder.rglob("*")
        )


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Canaries]:
    folder = tmp_path_factory.mktemp("canary")
    work = tmp_path_factory.mktemp("work")
    (folder / "secret.csv").write_text(f"{SECRET};group\nf;women\nm;men\n")
    SECRETS[:] = [str(folder / "secret.csv"), str(work / "link.csv"), "/dev/zero"]
    os.mkfifo(folder / "pipe.csv")
    (work / "link.csv").symlink_to(folder / "secret.csv")
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    visits: list[str] = []
    stop = threading.Event()

    def listen() -> None:
        while not stop.is_set():
            try:
                connection, address = listener.accept()
            except TimeoutError:
                continue
            visits.append(str(address))
            connection.close()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    yield Canaries(folder, work, listener.getsockname()[1], visits)
    stop.set()
    thread.join()
    listener.close()


def list_hostile_texts(canaries: Canaries) -> list[str]:
    folder = canaries.folder
    secret, mark = folder / "secret.csv", folder / "mark"
    web = f"http://127.0.0.1:{canaries.port}/x.csv"
    code = CODE.format(folder=folder)
    return [
        str(secret),
        f"../{folder.name}/secret.csv",
        "link.csv",
        str(folder / "*.csv"),
        str(folder / "pipe.csv"),
        "/dev/zero",
        "/dev/stdin",
        "~/.ssh/id_rsa",
        f"file://{secret}",
        web,
        f"s3://127.0.0.1:{canaries.port}/x",
        f"\\\\127.0.0.1@{canaries.port}\\share",
        f"postgresql://127.0.0.1:{canaries.port}/x",
        f"|touch {mark}",
        f"$(touch {mark})",
        f"`touch {mark}`",
        code,
        f"I({code})",
        f"sex ~ I({code})",
        f"sex ~ `{code}`",
        f"age ~ sex + poly(age, {code})",
        f"sex == {code}",
        f"sex = 'f' AND {code}",
        f"(lambda: {code})()",
        f"@{code}",
        "{{ ''.__class__.__mro__ }}",
        "{0.__class__.__init__.__globals__}",
        "{self.__dict__}",
        "%(x)s%n",
        "hostile.module:run",
        "hostile",
        "os:system",
        f"SELECT * FROM read_csv('{secret}')",  # noqa: S608 - an attack
        f"COPY (SELECT 1) TO '{mark}'",
        f"ATTACH '{mark}'",
        "zlib",
        "unicode_escape",
        "punycode",
        "(a+)+$",
        "^.*$",
        "a" * 100_000,
        "\0",
        "%" * 2000,
        "*",
        "",
    ]


def list_shapes(text: str) -> list[Any]:
    return [text, [text], {text: text}, {"sex": text}, {"sex": [text]}, {text: [text]}, [[text]]]


def list_parameters(entry: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(entry)


def list_fields() -> list[tuple[str, ...]]:
    """Every field of a plan, by its path: read from the code, so that new ones are here too."""
    read = [("read", option) for option in _READ_OPTIONS]
    columns = [("columns", "sex", field.name) for field in dataclasses.fields(sf.Column)]
    release = [("release", field.name) for field in dataclasses.fields(Writing)]
    steps = [
        ("steps", name, field.name)
        for name, method in catalogue.methods().items()
        for field in list_parameters(method)
    ]
    measures = [
        ("evaluate", name, field.name)
        for name, measure in catalogue.measures().items()
        for field in list_parameters(measure)
    ]
    names = [("columns",), ("targets",), ("evaluate",), ("method",), ("measure",), ("version",)]
    return [*read, *columns, *release, *steps, *measures, *names, ("section",)]


_READ_OPTIONS = (
    "delimiter", "decimal", "encoding", "quote", "formulas", "table", "query", "sheet", "types",
    "dates", "columns", "missing",
)  # fmt: skip


def write_plan(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A plan in which one field has this value."""
    raw: dict[str, Any] = {
        "columns": {"name": "direct", "sex": "quasi", "age": "quasi", "ill": "sensitive"},
        "steps": [{"method": "drop"}],
    }
    raw["columns"][CODE] = "other"
    match path:
        case ("read" | "release" as section, field):
            raw[section] = {field: value}
        case ("columns", variable, field):
            raw["columns"][variable] = {"role": "quasi", "kind": "nominal", field: value}
        case ("steps", name, field):
            raw["steps"].append({"method": name, **_REQUIRED.get(name, {}), field: value})
        case ("evaluate", name, field):
            raw["evaluate"] = {"m": {"measure": name, **_REQUIRED.get(name, {}), field: value}}
        case ("method",):
            raw["steps"].append({"method": value})
        case ("measure",):
            raw["evaluate"] = {"m": {"measure": value}}
        case ("section",):
            raw[str(value)] = {"a": 1}
        case (section,):
            raw[section] = value if section == "version" else {str(value): value}
    return raw


_REQUIRED = {
    name: {"variables": ["age"]}
    for name, entry in {**catalogue.methods(), **catalogue.measures()}.items()
    if any(field.name == "variables" for field in list_parameters(entry))
}


def write_toml(raw: dict[str, Any]) -> str:
    """TOML of a nested table; JSON's texts are TOML's too, once NUL and the like are escaped."""

    def write(value: Any) -> str:
        if isinstance(value, dict):
            inner = ", ".join(f"{json.dumps(key)} = {write(item)}" for key, item in value.items())
            return "{" + inner + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(write, value)) + "]"
        return json.dumps(value)

    return "\n".join(f"{json.dumps(key)} = {write(value)}" for key, value in raw.items())


@pytest.fixture(scope="module")
def data(canaries: Canaries) -> Path:
    path = canaries.work / "data.csv"
    count = 40
    pl.DataFrame(
        {
            "name": [f"person {index}" for index in range(count)],
            "sex": ["f", "m"] * (count // 2),
            "age": [30 + index % 10 for index in range(count)],
            "ill": [index % 3 for index in range(count)],
            CODE: [index % 2 for index in range(count)],  # a variable may have any name
        }
    ).write_csv(path)
    return path


def carry_out(plan: sf.Plan, data: Path) -> str:
    """What `sfumato protect` does; gives the released cells as text."""
    table = sf.read(data, **plan.read)
    release = sf.protect(table, plan)
    return str(release.data.rows())


def attack(path: tuple[str, ...], value: Any, canaries: Canaries, data: Path) -> str:
    plan_path = canaries.work / "plan.toml"
    plan_path.write_text(write_toml(write_plan(path, value)), encoding="utf-8")
    with warnings.catch_warnings(), watching(canaries.work):
        warnings.simplefilter("ignore")
        try:
            plan = sf.Plan.load(plan_path)
            result = carry_out(plan, data) if _is_worth_running(path) else ""
        except SfumatoError as error:
            result = str(error)
    return result


def _is_worth_running(path: tuple[str, ...]) -> bool:
    """Not with every text the slow measures: what they do with a name is the same for all."""
    return path[0] in {"read", "columns", "release", "steps", "targets", "evaluate"}


def test_every_option_of_reading_is_attacked() -> None:
    for option in _READ_OPTIONS:
        require_options({option: None})


def attack_fields(
    canaries: Canaries, data: Path, fields: list[tuple[str, ...]], *, every: int
) -> None:
    """Each field with every so-many-th of the texts; another start for each, so that all occur."""
    before = canaries.list_files()
    hostile = list_hostile_texts(canaries)
    for start, path in enumerate(fields):
        for number, text in enumerate(hostile):
            if (number + start) % every:
                continue
            # Every text as it is; lists and tables of it in turn
            shapes = list_shapes(text)
            for value in (shapes[0], shapes[1 + (number + start) % (len(shapes) - 1)]):
                started = time.process_time()
                result = attack(path, value, canaries, data)
                assert EVENTS == [], (path, text[:80])
                assert SECRET not in result, (path, text[:80])
                assert time.process_time() - started < 30, (path, text[:80])
    assert canaries.list_files() == before
    assert canaries.visits == []


def test_no_field_of_a_plan_acts(canaries: Canaries, data: Path) -> None:
    attack_fields(canaries, data, list_fields(), every=20)


@pytest.mark.study
@pytest.mark.parametrize("part", range(8))
def test_no_field_of_a_plan_acts_with_any_text(canaries: Canaries, data: Path, part: int) -> None:
    attack_fields(canaries, data, list_fields()[part::8], every=1)


def test_hierarchies_come_from_the_folder_of_the_plan_only(canaries: Canaries, data: Path) -> None:
    inside = canaries.work / "groups"
    inside.mkdir()
    (inside / "sex.csv").write_text("f;women\nm;men\n")
    path = ("columns", "sex", "hierarchy")
    assert "women" not in attack(path, "groups/sex.csv", canaries, data)
    plan = sf.Plan.load(canaries.work / "plan.toml")
    assert plan.schema["sex"].hierarchy == {"f": ("women",), "m": ("men",)}
    for outside in (
        str(canaries.folder / "secret.csv"),
        f"../{canaries.folder.name}/secret.csv",
        "link.csv",
        "groups/../../x.csv",
        str(canaries.folder / "pipe.csv"),
        "/dev/zero",
        "/proc/self/environ",
    ):
        assert "folder of the plan" in attack(path, outside, canaries, data)
        assert EVENTS == []
    assert "not a file" in attack(path, "groups", canaries, data)


def test_the_watch_sees_what_it_is_to_see(canaries: Canaries) -> None:
    """The watch itself: without this, silence would mean nothing."""
    with watching(canaries.work):
        eval("__import__('os').getpid()")  # noqa: S307 - the point
        (canaries.folder / "secret.csv").read_text()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", 9), timeout=1)
        (canaries.work / "fine").write_text("")
    assert {event for event, _ in EVENTS} >= {"exec", "open", "socket.connect"}
    assert not any("fine" in text for _, text in EVENTS)
    EVENTS.clear()
