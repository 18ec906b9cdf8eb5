"""Optional content: which layers of a document are shown when it is opened.

ISO 32000-2, 8.11: groups are on or off by the default configuration of the catalogue; membership
dictionaries combine groups. An image in a hidden layer is not drawn.
"""

from __future__ import annotations

from typing import Any

import pikepdf

_DEEPEST_NESTING = 10


class Layers:
    """The layers of one file."""

    def __init__(self, pdf: pikepdf.Pdf) -> None:
        properties = pdf.Root.get("/OCProperties")
        is_given = isinstance(properties, pikepdf.Dictionary)
        self.exist = is_given
        self._off = _groups_off(properties) if is_given else set()

    def shows(self, member: Any) -> bool:
        """Whether content that names this group or membership dictionary is shown."""
        if not self.exist or not isinstance(member, pikepdf.Dictionary):
            return True
        if member.get("/Type") != "/OCMD":
            return member.objgen not in self._off
        expression = member.get("/VE")
        if isinstance(expression, pikepdf.Array):
            return self._evaluates(expression, 0)
        states = [group.objgen not in self._off for group in _as_groups(member.get("/OCGs"))]
        if not states:
            return True
        match str(member.get("/P", "/AnyOn")):
            case "/AllOn":
                return all(states)
            case "/AnyOff":
                return not all(states)
            case "/AllOff":
                return not any(states)
            case _:
                return any(states)

    def _evaluates(self, expression: Any, depth: int) -> bool:
        if not isinstance(expression, pikepdf.Array):
            return self.shows(expression)
        if depth > _DEEPEST_NESTING or not len(expression):
            return True
        values = [self._evaluates(operand, depth + 1) for operand in list(expression)[1:]]
        match str(expression[0]):
            case "/And":
                return all(values)
            case "/Or":
                return any(values)
            case "/Not":
                return not all(values)
            case _:
                return True


def _groups_off(properties: Any) -> set[tuple[int, int]]:
    configuration = properties.get("/D")
    if not isinstance(configuration, pikepdf.Dictionary):
        return set()
    off = {group.objgen for group in _as_groups(configuration.get("/OFF"))}
    if configuration.get("/BaseState") == "/OFF":
        on = {group.objgen for group in _as_groups(configuration.get("/ON"))}
        off |= {group.objgen for group in _as_groups(properties.get("/OCGs"))} - on
    return off


def _as_groups(value: Any) -> list[pikepdf.Dictionary]:
    if isinstance(value, pikepdf.Dictionary):
        return [value]
    if not isinstance(value, pikepdf.Array):
        return []
    return [group for group in list(value) if isinstance(group, pikepdf.Dictionary)]
