"""Statements of the busy paths, compiled once and given to SQLite's driver as they are.

SQLAlchemy takes 80 to 400 us to run a statement that it has compiled before; SQLite takes 3 to 20. One text serves all databases all the
same: what is written with SQLAlchemy is compiled by it, and its types convert what goes in and comes out (docs/decisions/0028).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.exc import DBAPIError

Parameters = Mapping[str, Any]
Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Parameter:
    """Where a parameter of the driver comes from."""

    name: str | None  # None: it is part of the statement
    value: Any
    convert: Convert | None


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A statement for SQLite."""

    text: str
    parameter_count: int
    taken: tuple[_Parameter, ...]
    names: tuple[str, ...]  # of the columns that it returns
    converted: tuple[tuple[int, Convert], ...]  # which of them, and how

    def given(self, parameters: Parameters) -> list[Any]:
        """What the driver is given."""
        if len(parameters) != self.parameter_count:
            raise ValueError(f"{self.parameter_count} parameters are set by this statement, and {len(parameters)} are given")
        made = []
        for one in self.taken:
            value = one.value if one.name is None else parameters[one.name]
            made.append(value if one.convert is None else one.convert(value))
        return made

    def row(self, found: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the driver found, as SQLAlchemy would have it."""
        if not self.converted:
            return found
        made = list(found)
        for index, convert in self.converted:
            made[index] = convert(made[index])
        return tuple(made)


class Prepared:
    """One statement. Every execution of it sets the same columns, each of which is given; there are no lists among its parameters."""

    def __init__(self, statement: sa.Executable) -> None:
        self.statement = statement
        self._compiled: _Compiled | None = None

    def execute(self, connection: sa.Connection, parameters: Parameters = MappingProxyType({})) -> sa.Result[Any]:
        """Run it inside the transaction of the connection."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self.statement, parameters)
        compiled = self._compiled or self._compile(connection.dialect, parameters)
        found = _run(connection, compiled, lambda cursor: cursor.execute(compiled.text, compiled.given(parameters)).fetchall())
        return IteratorResult(SimpleResultMetaData(compiled.names), iter([compiled.row(row) for row in found]))

    def execute_many(self, connection: sa.Connection, rows: Sequence[Parameters]) -> None:
        """Run it once for each of them; it returns nothing."""
        if connection.dialect.name != "sqlite":
            connection.execute(self.statement, rows)
            return
        compiled = self._compiled or self._compile(connection.dialect, rows[0])
        _run(connection, compiled, lambda cursor: cursor.executemany(compiled.text, [compiled.given(row) for row in rows]))

    def _compile(self, dialect: sa.Dialect, parameters: Parameters) -> _Compiled:
        element = cast(sa.ClauseElement, self.statement)
        set_here = [name for name in parameters if isinstance(element, sa.UpdateBase) and not name.startswith("by_")]
        compiled = cast(Any, element.compile(dialect=dialect, column_keys=set_here or None))
        taken = []
        for name in compiled.positiontup or ():
            bind = compiled.binds[name]
            convert = bind.type.dialect_impl(dialect).bind_processor(dialect)
            taken.append(
                _Parameter(name, None, convert) if bind.required or name in parameters else _Parameter(None, bind.effective_value, convert)
            )
        columns = list(cast(Any, element).exported_columns) if isinstance(element, sa.sql.expression.ReturnsRows) else []
        processors = [column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns]
        self._compiled = _Compiled(
            text=str(compiled),
            parameter_count=len({one.name for one in taken if one.name is not None}),
            taken=tuple(taken),
            names=tuple(column.key for column in columns),
            converted=tuple((index, convert) for index, convert in enumerate(processors) if convert is not None),
        )
        return self._compiled


def _run(connection: sa.Connection, compiled: _Compiled, work: Callable[[sqlite3.Cursor], Any]) -> Any:
    """With the driver's cursor; its errors come as SQLAlchemy's, which quote no parameters."""
    cursor = cast(sqlite3.Cursor, connection.connection.cursor())
    try:
        return work(cursor)
    except sqlite3.Error as error:
        raise DBAPIError.instance(
            compiled.text, None, error, cast(type[Exception], sqlite3.Error), hide_parameters=True, dialect=connection.dialect
        ) from error
    finally:
        cursor.close()
