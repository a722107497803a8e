"""Data: open a file, a folder or a database, and see what is in it and what is odd about it."""

from __future__ import annotations

import asyncio
import html
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from sfumato.errors import DataError, SfumatoError
from sfumato.io import find_reader
from sfumato.io.atomic import PRIVATE, write_file
from sfumato.io.databases import remove_secrets
from sfumato.io.several import list_tables
from sfumato.io.source import KINDS
from sfumato.studio.decisions import get_plan, put_plan
from sfumato.studio.diagram import Drawing, draw_tables
from sfumato.studio.paging import cut_page, read_number
from sfumato.studio.paths import clean_name, confine_data
from sfumato.studio.picker import format_size, list_folder
from sfumato.studio.security import refuse
from sfumato.studio.session import UPLOADS
from sfumato.studio.source import DataSource
from sfumato.studio.texts import say
from sfumato.studio.uploads import open_batch, store, unpack_all
from sfumato.studio.view import Outcome, Page, View

page = Page("data")
_ROWS = 20
_DATABASES = (".duckdb", ".db")
_POSTGRES = ("postgresql://", "postgres://")
_PENDING = "database.json"
"""Of the session's folder: the database whose tables are being chosen."""
_PATIENCE_SECONDS = 15.0
_DELIMITERS = (",", ";", "\t", "|")
_OPTIONS = ("delimiter", "decimal", "encoding", "sheet", "missing", "types", "dates")
_DATE_PATTERNS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y")
"""How dates are often written where a file does not show which part is the day."""
_NAMED = 12
"""Variables that a line about a problem names."""
_MOSTLY_MISSING = 0.5


@page.show
async def show(view: View) -> Mapping[str, Any]:
    """How the data were read, the first records, and ways to open others."""
    source = view.session.state.source
    ways = {
        "folder": await _look_into(view),
        "choosing": await _list_choice(view),
        "most": format_size(view.studio.settings.most_upload),
        "most_bytes": view.studio.settings.most_upload,
        "has_plan": bool(view.session.plan_text),
    }
    if source is None:
        return {**ways, "source": None}
    linked = await _show_tables(view) if source.linked else {}
    table = linked.get("table", "")
    if source.linked and not table:
        # The tables are still being read: nothing of them can be shown.
        return {**ways, "source": source, **linked, "reading": True}
    first = read_number(view.query, "first")
    column = read_number(view.query, "column")
    asked = view.ask("preview", first=first, rows=_ROWS, table=table, column=column)
    preview, description, sheets = await asyncio.gather(
        asked, view.ask("describe_data", table=table), _list_sheets(view)
    )
    if preview.failure:
        description = Outcome()  # what cannot be read is told once
    return {
        **ways,
        "source": source,
        **linked,
        "reading": False,
        "table": table,
        "preview": preview,
        "gone": _is_gone(view, source),
        "rows": _ROWS,
        "description": description,
        "problems": list_problems(description.value) if description.ready else [],
        "variables": _list_variables(view, description) if description.ready else None,
        "sheets": sheets,
        "read": _read_options(view, table),
        "seen": {
            **dict.fromkeys(_OPTIONS),
            **(description.value["options"] if description.ready else {}),
        },
        "kinds": KINDS,
        "date_patterns": _DATE_PATTERNS,
        "delimiters": _DELIMITERS,
        "may_correct": view.plan is not None,
        "is_text": _is_text(source, table, description),
        "query": view.query,
    }


async def _look_into(view: View) -> Any:
    """What is in the folder that is being looked into."""
    text = view.query.get("folder", "")
    places = view.studio.settings.places
    search = view.query.get("find", "")
    try:
        return await asyncio.to_thread(list_folder, text, places, search=search)
    except DataError as error:
        return {"failure": {"what": error.what, "hint": error.hint}}


async def _list_sheets(view: View) -> list[str]:
    if not view.session.source.where.lower().endswith((".xlsx", ".xls", ".ods")):
        return []
    found = await view.ask("list_book")
    return list(found.value) if found.ready else []


def _read_options(view: View, table: str) -> dict[str, Any]:
    """How the plan says that the file is to be read; None where it leaves that open."""
    try:
        options = get_plan(view, table).read
    except SfumatoError:
        options = {}
    return {**dict.fromkeys(_OPTIONS), **options}


def _is_text(source: DataSource, table: str, description: Outcome) -> bool:
    """Whether delimiter, decimal sign and encoding can be corrected."""
    if description.ready:
        return bool(description.value["format"] == "csv")
    del table
    return source.where.lower().removesuffix(".gz").endswith((".csv", ".tsv", ".txt"))


# Several tables -----------------------------------------------------------------------------------


async def _show_tables(view: View) -> dict[str, Any]:
    """The tables with the keys between them, and which of them is looked at."""
    links = await view.ask("suggest_links")
    if not links.ready:
        return {"links": links, "drawing": None, "tables": [], "table": ""}
    names = list(links.value["tables"])
    asked = view.query.get("table", "")
    return {
        "links": links,
        "drawing": await draw(view, links.value),
        "accepted": view.plan is not None,
        "tables": names,
        "table": asked if asked in names else names[0],
    }


async def draw(view: View, links: Mapping[str, Any]) -> Drawing:
    """The tables as a drawing, with the keys of the plan, or those that are suggested."""
    plan = view.plan
    if plan is not None:
        keys, person = [[str(key), key.target] for key in plan.keys], plan.person
    else:
        keys, person = [key[:2] for key in links["keys"]], links["person"]
    checks = await view.ask("check_links", keys=keys)
    rows = {name: table["rows"] for name, table in links["tables"].items()}
    return draw_tables(rows, keys, person, checks.value if checks.ready else {})


# What was found -----------------------------------------------------------------------------------


def _is_gone(view: View, source: DataSource) -> bool:
    """Whether the data were uploaded and removed since, as uploads are when the studio stops."""
    path = Path(source.where)
    return path.is_relative_to(view.session.folder / UPLOADS) and not path.exists()


def list_problems(description: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What looks wrong about the data, the most serious first, each with what to do."""
    variables = description["variables"]
    found: list[dict[str, Any]] = []
    if not description["records"]:
        found.append(
            {"kind": "", "what": say("data.problem.no_records"), "tone": "bad", "names": []}
        )
    if description["duplicates"]:
        text = say("data.problem.duplicates", count=f"{description['duplicates']:,}")
        found.append({"kind": "", "what": text, "tone": "warn", "names": []})
    kinds = {
        "constant": [v for v in variables if v["distinct"] == 1 and v["missing"] == 0],
        "empty": [v for v in variables if v["distinct"] == 0],
        "missing": [v for v in variables if v["distinct"] and v["missing"] > _MOSTLY_MISSING],
        "spellings": [v for v in variables if v["united"] is not None],
        "mixed": [v for v in variables if v["mixed"] and v["mixed"]["others"]],
        "unclear": [v for v in variables if v["mixed"] and not v["mixed"]["others"]],
    }
    for kind, those in kinds.items():
        if those and description["records"]:
            names = [{"name": v["name"], "note": _note(kind, v)} for v in those[:_NAMED]]
            found.append(
                {
                    "kind": kind,
                    "what": say(f"data.problem.{kind}", count=f"{len(those):,}"),
                    "tone": "warn",
                    "names": names,
                    "more": len(those) - len(names),
                }
            )
    return found


def _note(kind: str, variable: Mapping[str, Any]) -> str:
    """What is said of a variable beside its name."""
    if kind == "spellings":
        return say("data.problem.spelled", distinct=variable["distinct"], united=variable["united"])
    if kind == "mixed":
        mixed = variable["mixed"]
        return say("data.problem.mostly", mostly=mixed["mostly"], others=f"{mixed['others']:,}")
    return f"{variable['missing']:.0%}" if kind == "missing" else ""


def _has_problem(variable: Mapping[str, Any]) -> bool:
    odd = variable["united"] is not None or variable["mixed"] is not None
    return bool(odd or variable["distinct"] <= 1 or variable["missing"] > _MOSTLY_MISSING)


def _list_variables(view: View, description: Outcome) -> Any:
    """The variables that are looked for, a page of them."""
    search = view.query.get("search", "").casefold()
    only = view.query.get("only", "")
    chosen = [
        item
        for item in description.value["variables"]
        if (search in item["name"].casefold() or search in item["label"].casefold())
        and (only != "problems" or _has_problem(item))
    ]
    return cut_page(chosen, read_number(view.query, "at"))


@page.part("spellings")
async def show_spellings(view: View) -> Mapping[str, Any]:
    """The spellings of a variable, for the dialog."""
    name, table = view.query.get("name", ""), view.query.get("table", "")
    groups = await view.ask("list_spellings", soon=5.0, name=name, table=table)
    return {"name": name, "groups": groups}


# What a person does -------------------------------------------------------------------------------


@page.action("open")
async def open_path(view: View) -> Response | None:
    """Open a file or a folder by its path, or a database by its address."""
    text = view.get("path").strip()
    if "://" in text and not text.startswith("duckdb://"):
        return await _begin_choice(view, _add_password(text, view.get("password")), "")
    path = confine_data(text.removeprefix("duckdb:///"), view.studio.settings.places)
    if path.is_dir():
        tables = list_tables(path)
        if len(tables) > 1:
            _open(view, DataSource(where=str(path), title=path.name, linked=True))
            return view.go("data")
        path = Path(next(iter(tables.values())).where)
    if not path.is_file():
        raise DataError("There is no such file.", hint="check the name, or choose from the list.")
    if path.suffix.lower() in _DATABASES:
        return await _begin_choice(view, str(path), "")
    find_reader(path)
    if not path.stat().st_size:
        raise DataError("This file is empty.", hint="is it the right one?")
    _open(view, DataSource(where=str(path), title=path.name))
    return view.go("data")


def _open(view: View, source: DataSource) -> None:
    """Go on with other data. The plan is a new one, unless the old one shall be kept."""
    view.session.title = source.title
    keep = view.get("keep") == "true"
    what = say("data.did.opened", title=source.title)
    view.change(what, source=source, plan=None if keep else "")


def _add_password(address: str, password: str) -> str:
    """The address with a password that was typed beside it, where nobody sees it."""
    if not address.startswith(_POSTGRES):
        raise DataError(
            "Addresses of this kind cannot be read.",
            hint="known are postgresql://…, and files.",
        )
    if not password:
        return address
    parts = urlsplit(address)
    user, _, host = parts.netloc.rpartition("@")
    login = f"{user.partition(':')[0]}:{quote(password, safe='')}"
    return urlunsplit(parts._replace(netloc=f"{login}@{host}"))


async def _begin_choice(view: View, where: str, schema: str, *, upload: bool = False) -> Response:
    """Look at the tables of a database before any of them is read."""
    title = Path(where).name if "://" not in where else _name_database(where)
    await _list_database(where, schema)
    pending = {"where": where, "title": title, "schema": schema, "upload": upload}
    write_file(view.session.folder / _PENDING, json.dumps(pending), mode=PRIVATE)
    return view.go("data", choose="tables")


def _name_database(where: str) -> str:
    try:
        return remove_secrets(where)
    except SfumatoError:
        raise
    except Exception:  # noqa: BLE001 - the library's text quotes the address with its password
        raise DataError(
            "This is not the address of a database.",
            hint="write postgresql://user@server:5432/database.",
        ) from None


async def _list_database(where: str, schema: str) -> dict[str, Any]:
    listing = asyncio.to_thread(list_tables, where, schema=schema or None)
    try:
        return dict(await asyncio.wait_for(listing, _PATIENCE_SECONDS))
    except TimeoutError:
        raise DataError(
            "The database does not answer.", hint="check the name of the server and its port."
        ) from None


async def _list_choice(view: View) -> dict[str, Any] | None:
    """The tables of the database that is being opened; None where none is."""
    path = view.session.folder / _PENDING
    if view.query.get("choose") != "tables" or not path.is_file():
        return None
    pending = json.loads(path.read_text("utf-8"))
    shown = {"title": pending["title"], "schema": pending["schema"], "tables": [], "failure": None}
    try:
        shown["tables"] = list(await _list_database(pending["where"], pending["schema"]))
    except SfumatoError as error:
        shown["failure"] = {"what": error.what, "hint": error.hint}
    return shown


@page.action("schema")
async def choose_schema(view: View) -> Response | None:
    """Look into another schema of the database."""
    path = view.session.folder / _PENDING
    pending = json.loads(path.read_text("utf-8"))
    return await _begin_choice(
        view, pending["where"], view.get("schema").strip(), upload=pending["upload"]
    )


@page.action("choose")
async def choose_tables(view: View) -> Response | None:
    """Open one table of a database, or several that are linked."""
    path = view.session.folder / _PENDING
    pending = json.loads(path.read_text("utf-8"))
    places = await _list_database(pending["where"], pending["schema"])
    chosen = [name for name in view.get_all("table") if name in places]
    if not chosen:
        view.flash(say("data.choose.none"), tone="bad")
        return view.go("data", choose="tables")
    source = DataSource(where=pending["where"], title=pending["title"], upload=pending["upload"])
    if len(chosen) == 1:
        title = f"{pending['title']}, {chosen[0]}"
        _open(view, replace(source, title=title, table=places[chosen[0]].table))
    else:
        whole = f"{pending['schema']}.*" if pending["schema"] else None
        _open(view, replace(source, linked=True, table=whole, tables=tuple(chosen)))
    path.unlink()
    return view.go("data")


@page.action("upload", streams=True)
async def upload(view: View) -> Response | None:
    """Take one file of an upload; with the last of them, open what came up."""
    query, settings = view.query, view.studio.settings
    length = view.request.headers.get("content-length", "")
    name, number, count = query.get("name", ""), *(read_number(query, n) for n in ("number", "of"))
    place: Path | None = None
    try:
        _require_readable(name, count)
        if not length.isdigit():
            raise DataError("The browser does not say how long this file is.")
        place = open_batch(view.session.folder / UPLOADS, query.get("batch", ""))
        await store(
            view.request.stream(), place, name, length=int(length), most=settings.most_upload
        )
        if number + 1 < count:
            return Response(status_code=HTTPStatus.NO_CONTENT)
        return await _open_upload(view, place)
    except (SfumatoError, ClientDisconnect) as error:
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
        if isinstance(error, ClientDisconnect):
            return Response(status_code=HTTPStatus.BAD_REQUEST)
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        said = [html.escape(text[:1].upper() + text[1:]) for text in (error.what, error.hint)]
        return refuse(status, *said)


def _require_readable(name: str, count: int) -> None:
    """Refuse a file that nothing here can read before any of it has come up."""
    path = Path(clean_name(name))
    if path.suffix.lower() != ".zip":
        reader = find_reader(path)
        if count > 1 and reader == "databases.read_duckdb":
            raise DataError("A database is uploaded by itself.", hint="choose only this file.")


async def _open_upload(view: View, place: Path) -> Response:
    """Open the file that came up, or the linked tables."""
    most = view.studio.settings.most_upload
    # Unpacking takes a while, and other pages must not wait for it.
    files = await asyncio.to_thread(unpack_all, place, most)
    if len(files) == 1 and files[0].suffix.lower() in _DATABASES:
        return await _begin_choice(view, str(files[0]), "", upload=True)
    if len(files) == 1:
        source = DataSource(where=str(files[0]), title=files[0].name, upload=True)
    else:
        list_tables(place)
        title = say("data.several_files", first=files[0].name, more=len(files) - 1)
        source = DataSource(where=str(place), title=title, linked=True, upload=True)
    _open(view, source)
    return view.go("data")


@page.action("read")
async def correct_reading(view: View) -> Response | None:
    """Read the file in another way: delimiter, decimal sign, encoding, words for missing, sheet."""
    table = view.get("table")
    plan = get_plan(view, table)
    options = dict(plan.read)
    for name in ("delimiter", "decimal", "encoding", "sheet"):
        if name not in view.form:
            continue
        text = view.get(name).replace("\\t", "\t")
        text = text if name == "delimiter" else text.strip()
        if text:
            options[name] = text
        else:
            options.pop(name, None)
    if "missing" in view.form:
        tokens = [token.strip() for token in view.get("missing").split(",")]
        options.pop("missing", None)
        if any(tokens):
            options["missing"] = [token for token in tokens if token]
    put_plan(view, say("data.did.read"), replace(plan, read=options), table)
    return view.go("data", **({"table": table} if table else {}))


@page.action("type")
async def correct_type(view: View) -> Response | None:
    """Read one variable as another type."""
    table, name, wanted = view.get("table"), view.get("name"), view.get("type")
    plan = get_plan(view, table)
    types, dates = dict(plan.read.get("types", {})), dict(plan.read.get("dates", {}))
    types.pop(name, None)
    dates.pop(name, None)
    wanted, _, pattern = wanted.partition("|")
    if wanted in KINDS:
        types[name] = wanted
    if pattern := pattern or view.get("pattern").strip():
        dates[name] = pattern
    options = {key: value for key, value in plan.read.items() if key not in ("types", "dates")}
    options |= {key: value for key, value in (("types", types), ("dates", dates)) if value}
    put_plan(view, say("data.did.type", name=name), replace(plan, read=options), table)
    kept = {key: view.get(key) for key in ("table", "search", "only", "at") if view.get(key)}
    return view.go("data", **kept)
