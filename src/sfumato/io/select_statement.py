"""A query of a database, admitted only where it can do nothing but read tables.

A query may come from a plan that somebody else wrote. The database's own parser takes it apart, so
what is checked here is what will run; every part of the tree must be one that is known here, and
so must every function. What is not known is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sfumato.errors import DataError
from sfumato.io.source import load_library

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 100_000  # characters


def _list_names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VIEW = "make a view in the database that does it, and read it with table = 'schema.view'."

# The parts of which a reading statement is made, by their names in PostgreSQL's source. Not here,
# on purpose: IntoClause (SELECT INTO makes a table), LockingClause (FOR UPDATE), ParamRef, XML and
# JSON tables, and every statement that is not a SELECT, also within WITH.
_NODES = _list_names(
    """
    ParseResult RawStmt Node List SelectStmt WithClause CommonTableExpr CTESearchClause
    CTECycleClause ResTarget Alias RangeVar RangeSubselect RangeTableSample JoinExpr SortBy
    WindowDef GroupingSet ColumnRef A_Star A_Const Integer Float Boolean String BitString A_Expr
    BoolExpr NullTest BooleanTest CaseExpr CaseWhen CoalesceExpr MinMaxExpr GroupingFunc SubLink
    A_ArrayExpr RowExpr A_Indirection A_Indices TypeCast TypeName CollateClause FuncCall
    NamedArgExpr SQLValueFunction
    """
)
# Functions that compute from their arguments alone (or from the clock) and from nothing else: no
# files, no settings, no sequences, no locks, no other sessions, no statements given as text.
FUNCTIONS = _list_names(
    """
    abs acos age any_value array_agg array_append array_cat array_length array_position
    array_prepend array_remove array_replace array_to_string ascii asin atan atan2 avg
    bit_and bit_length bit_or bit_xor bool bool_and bool_or bpchar btrim cardinality cbrt ceil
    ceiling char_length character_length chr clock_timestamp coalesce concat concat_ws corr cos
    cosd cot count covar_pop covar_samp cume_dist date date_bin date_part date_trunc decode degrees
    dense_rank div encode every exp extract first_value float4 float8 floor format gcd
    greatest initcap int2 int4 int8 isfinite jsonb_array_length jsonb_extract_path
    jsonb_extract_path_text jsonb_typeof json_array_length json_extract_path
    json_extract_path_text json_typeof justify_days justify_hours justify_interval lag last_value
    lcm lead least left length like_escape ln log log10 lower lower_inc lower_inf lpad ltrim
    make_date make_interval make_time make_timestamp make_timestamptz max md5 min min_scale mod
    mode normalize now nth_value ntile nullif numeric num_nonnulls num_nulls octet_length overlaps
    overlay parse_ident percent_rank percentile_cont percentile_disc pi position power
    quote_ident quote_literal quote_nullable radians rank regexp_count regexp_instr regexp_like
    regexp_match regexp_replace regexp_split_to_array regexp_substr regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy replace reverse right round
    row_number rpad rtrim scale sha224 sha256 sha384 sha512 sign similar_to_escape sin sind
    split_part sqrt starts_with statement_timestamp stddev stddev_pop stddev_samp string_agg
    string_to_array strpos substr substring sum tan tand text timezone to_char to_date to_hex
    to_number to_timestamp transaction_timestamp translate trim trim_array trim_scale trunc
    unistr upper upper_inc upper_inf var_pop var_samp variance varchar width_bucket
    """
)
_SAMPLING = frozenset({"bernoulli", "system"})
_CATALOGUES = ("pg_", "information_schema")


def require_postgres_select(query: str) -> None:
    """Refuse a query for PostgreSQL other than one SELECT, WITH, TABLE or VALUES that only reads.

    Question: can this text, run by PostgreSQL as any user, do anything but read tables?
    Assumes: what the database's owner put into it (views, types, operators) is the owner's
    responsibility; the query can reach it as any reader of the table could.
    """
    tree = _parse(query)
    statements = list(tree.stmts)
    if len(statements) != 1 or not statements[0].stmt.HasField("select_stmt"):
        raise _make_error_of_statements()
    for node in _walk(tree):
        kind = node.DESCRIPTOR.name
        if kind not in _NODES:
            raise _make_error_of_part(kind)
        check = _CHECKS.get(kind)
        if check:
            check(node)


def require_own_table(schema: str, table: str) -> None:
    """Refuse the server's own catalogues: they hold settings, passwords and others' queries."""
    if (schema or table).startswith(_CATALOGUES):
        raise DataError(
            "the server's own catalogues are not read.", hint="name a table that holds records."
        )


def _parse(query: str) -> Any:
    postgast = load_library("postgast", extra="postgres", purpose="Checking a PostgreSQL query")
    _require_plain(query)
    try:
        return postgast.parse(query)
    except postgast.PgQueryError as error:
        raise DataError(
            f"PostgreSQL refuses the request: {error.message}.", hint="check the query."
        ) from None
    except Exception:  # noqa: BLE001 - what cannot be taken apart is refused, whatever the reason
        raise DataError(
            "the query cannot be checked: it is nested too deeply, or is no text.", hint=_VIEW
        ) from None


def _require_plain(query: str) -> None:
    # A parser takes a C string: what follows a NUL would be sent, but not looked at
    if "\0" in query or len(query) > _LONGEST:
        raise DataError(f"the query holds NUL characters, or more than {_LONGEST} characters.")


def _make_error_of_statements() -> DataError:
    return DataError(
        "the query is not a single SELECT.", hint="ask one thing with one SELECT, and only ask."
    )


def _make_error_of_part(kind: str) -> DataError:
    return DataError(
        f"the query has a part that may do more than read tables ({kind}).", hint=_VIEW
    )


def _make_error_of_function(name: str) -> DataError:
    return DataError(
        f"the query calls '{name}', which is not among the functions that only compute.", hint=_VIEW
    )


def _walk(message: Any) -> Iterator[Any]:
    """Every node of the tree, also those in fields that are new to us."""
    waiting = [message]
    while waiting:
        node = waiting.pop()
        yield node
        for field, value in node.ListFields():
            if field.message_type:
                waiting += value if field.is_repeated else [value]


def _check_function(call: Any) -> None:
    *schema, name = _read_name(call.funcname)
    if name not in FUNCTIONS or schema not in ([], ["pg_catalog"]):
        raise _make_error_of_function(name)


def _check_table(table: Any) -> None:
    if table.catalogname:
        raise DataError("the query names another database.", hint="name schema and table only.")
    require_own_table(table.schemaname, table.relname)


def _check_sampling(sample: Any) -> None:
    if not set(_read_name(sample.method)) <= _SAMPLING:
        raise DataError("the query samples by an unknown method.", hint="BERNOULLI or SYSTEM.")


def _check_operator(parts: Any) -> None:
    if _read_name(parts)[:-1] not in ([], ["pg_catalog"]):
        raise DataError("the query names an operator of another schema.", hint=_VIEW)


def _check_with(clause: Any) -> None:
    if clause.recursive:
        raise DataError("the query is recursive, so it may never end.", hint=_VIEW)


def _read_name(parts: Any) -> list[str]:
    return [part.string.sval for part in parts]


_CHECKS: dict[str, Callable[[Any], None]] = {
    "FuncCall": _check_function,
    "RangeVar": _check_table,
    "RangeTableSample": _check_sampling,
    "A_Expr": lambda expression: _check_operator(expression.name),
    "SubLink": lambda expression: _check_operator(expression.oper_name),
    "SortBy": lambda expression: _check_operator(expression.use_op),
    "WithClause": _check_with,
}


# DuckDB's parts, by their names in its serialised tree. Not here, on purpose: TABLE_FUNCTION
# (read_csv, glob, query …), SHOW_REF, PIVOT, RECURSIVE_CTE_NODE and statements that write.
_QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "CTE_NODE"})
_TABLE_NODES = frozenset({"BASE_TABLE", "SUBQUERY", "JOIN", "EMPTY", "EXPRESSION_LIST"})
# These have no side effects, yet tell of settings, of the machine, or run a text as a query.
_TELLING = _list_names(
    """
    current_setting getvariable getenv current_database current_schema current_schemas
    current_user session_user user version in_search_path json_execute_serialized_sql
    json_deserialize_sql json_serialize_sql json_serialize_plan pg_get_viewdef
    """
)


def require_duckdb_select(connection: Any, query: str) -> None:
    """Refuse a query for DuckDB that is not one SELECT that only reads tables of the file.

    Assumes: the connection is read only, and shut off from other files and the network.
    """
    _require_plain(query)
    [text] = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchone()
    tree = json.loads(text)
    if tree["error"] and tree.get("error_type") == "parser":
        raise DataError("the query is not valid SQL.", hint="try it in DuckDB itself.")
    if tree["error"] or len(tree["statements"]) != 1:
        raise _make_error_of_statements()
    computing = _list_computing_functions(connection)
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        if not isinstance(node, dict):
            continue
        waiting += node.values()
        kind = str(node.get("type"))
        known = _QUERY_NODES if "modifiers" in node else _TABLE_NODES if "sample" in node else None
        if known is not None and kind not in known:
            raise _make_error_of_part(kind)
        name = node.get("function_name")
        if name is not None and name.lower() not in computing:
            raise _make_error_of_function(name)


def _list_computing_functions(connection: Any) -> set[str]:
    rows = connection.execute(
        """SELECT function_name, bool_or(coalesce(has_side_effects, false)) FROM duckdb_functions()
        WHERE function_type IN ('scalar', 'aggregate', 'macro', 'window') GROUP BY 1"""
    ).fetchall()
    return {name for name, effects in rows if not effects} - _TELLING
