"""Reads what conditionals of the preprocessor leave out on the emulated device, and what a source includes first."""

import re
from collections.abc import Iterator
from itertools import takewhile

from tree_sitter import Node

from sandbox.compilers.cuda_tokens import (
    SourcePosition,
    condition_of,
    defined_macros,
    descendants,
    enter,
    guarded_nodes,
    leaves,
    node_text,
    readable_tree,
    syntax_tree,
)

WORK = {"assignment_expression", "update_expression", "return_statement"}


def left_out_of_device_code(code: bytes, macro: bytes) -> Iterator[int]:
    """The lines of conditionals within device code that leave work out where the macro is not defined: true only where it is, with another
    statement than a call behind them, and nothing instead."""
    waiting = [(readable_tree(code), SourcePosition())]
    while waiting:
        node, place = waiting.pop()
        inside = enter(node, place)
        waiting.extend((child, inside) for child in node.children)
        condition = condition_of(node)
        if condition is None or not place.in_device_code or node.child_by_field_name("alternative") is not None:
            continue
        words = {leaf.text for leaf in leaves(condition)}
        needs = macro in words and not words & {b"!", b"<", b"<=", b"||"} and node.children[0].type != "#ifndef"
        if needs and any(inner.type in WORK for branch in guarded_nodes(node) for inner in descendants(branch)):
            yield 1 + node.start_point[0]


def replaced_where_undefined(code: bytes, macro: bytes) -> list[tuple[int, int]]:
    """The bytes that conditionals leave out where nothing defines the macro, and that another branch does instead. None where the code
    defines it itself. A branch that only calls something, such as `__trap()`, does nothing instead."""
    if macro not in code or macro.decode() in defined_macros(code):
        return []
    ranges = []
    for node in descendants(syntax_tree(code)):
        condition, alternative = condition_of(node), node.child_by_field_name("alternative")
        if condition is None or alternative is None or node.children[0].type == "#ifndef" or not _needs(condition, macro):
            continue
        if any(inner.type in (*WORK, "gnu_asm_expression") for inner in descendants(alternative)):
            ranges.append((condition.end_byte, alternative.start_byte))
    return ranges


def _needs(condition: Node, macro: bytes) -> bool:
    """Return whether a condition holds only where the macro is defined. False of a form that is not known here."""
    if condition.type == "identifier":
        return condition.text == macro
    if condition.type in ("preproc_defined", "parenthesized_expression"):
        return any(_needs(child, macro) for child in condition.named_children)
    operand, bound = condition.child_by_field_name("left"), condition.child_by_field_name("right")
    if condition.type != "binary_expression" or operand is None or bound is None:
        return False
    operator = condition.children[1].type
    if operator in ("&&", "||"):
        return (any if operator == "&&" else all)(_needs(side, macro) for side in (operand, bound))
    # An undefined name is 0 in a condition.
    above_zero = bound.type == "number_literal" and re.fullmatch(rb"[1-9]\d*", bound.text or b"") is not None
    return operand.text == macro and operand.type == "identifier" and operator in (">", ">=", "==") and above_zero


def leading_includes(code: bytes) -> list[str]:
    """Return the headers that the code includes, unconditionally, before it defines or undefines a macro of its own."""
    leading = takewhile(lambda node: node.type in ("comment", "preproc_include"), syntax_tree(code).children)
    return [node_text(node.child_by_field_name("path")).strip('<>"') for node in leading if node.type == "preproc_include"]
