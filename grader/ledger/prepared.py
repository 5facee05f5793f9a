"""Statements that are run past SQLAlchemy in SQLite, where the small ones take ten times as long with it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.exc import DBAPIError

from grader.ledger.tables import UtcTime

Convert = Callable[[Any], Any] | None  # None: the value is the database's own


class Prepared:
    """A statement that is compiled once. It answers with SQLAlchemy's rows."""

    def __init__(self, statement: sa.Select[Any] | sa.sql.dml.UpdateBase) -> None:
        self._statement, self._text, self._constants = statement, "", dict[str, Any]()
        self._binds, self._results = list[tuple[str, Convert]](), list[Convert]()  # of parameters and columns, in their order
        self._head = SimpleResultMetaData([str(column.key) for column in statement.exported_columns])

    def run(self, connection: sa.Connection, *rows: Mapping[str, Any]) -> Sequence[sa.Row[Any]]:
        """Run it with parameters, of which all calls name the same; where there are several rows of them, without an answer."""
        if connection.dialect.name != "sqlite":
            result = connection.execute(self._statement, rows or None)
            return result.all() if result.returns_rows else []
        if not self._text:
            self._compile(connection.dialect, [*rows[0]] if rows else None)
        parameters = ({**self._constants, **row} for row in rows or ({},))
        values = [[convert(row[name]) if convert else row[name] for name, convert in self._binds] for row in parameters]
        cursor = connection.connection.cursor()
        try:
            if len(values) > 1:
                cursor.executemany(self._text, values)
            else:
                cursor.execute(self._text, values[0])
            answer = cursor.fetchall()
        except sqlite3.Error as error:
            raise DBAPIError.instance(self._text, None, error, sqlite3.Error, hide_parameters=True) from error
        converted = ([convert(value) if convert else value for value, convert in zip(row, self._results, strict=True)] for row in answer)
        return IteratorResult(self._head, converted).all() if answer else []

    def _compile(self, dialect: sa.Dialect, names: list[str] | None) -> None:
        compiled = self._statement.compile(dialect=dialect, column_keys=names)
        self._constants = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
        types = {name: compiled.binds[name].type.dialect_impl(dialect) for name in compiled.positiontup or ()}
        self._binds = [(name, _remembering(types[name], dialect)) for name in compiled.positiontup or ()]
        columns = self._statement.exported_columns
        self._results = [column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns]
        self._text = compiled.string


def _remembering(kind: sa.types.TypeEngine[Any], dialect: sa.Dialect) -> Convert:
    """Convert the time of a transaction once, and not for each of its columns."""
    convert = kind.bind_processor(dialect)
    return lru_cache(maxsize=64)(convert) if convert and isinstance(kind, UtcTime) else convert
