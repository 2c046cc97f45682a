"""Composite tools: several tools of an app under one name, called as one step (ToolCUA's coarse tools, section 2.2).

In: composites that a session was asked to offer, and the instance's own tools. Out: their signatures, which follow from
those of their members, and their results. A composite stops at the first member that fails; what came before it stays
done, as with any tool that fails half-way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from env_servers.errors import UserError
from env_servers.protocol.messages import Composite

from .suite import ToolSpec


def spec_of(composite: Composite, tools: Sequence[ToolSpec]) -> ToolSpec:
    """The composite as a tool: each parameter has the schema of the members' arguments that it fills.

    Raises UserError, naming the composite, for a member that is no tool, an argument that the member lacks or that is
    required and not filled, a name that a tool has already, or a parameter that fills arguments of different schemas.
    """
    known = {tool.name: tool.parameters for tool in tools}
    where = f"composite {composite.name!r}"
    if composite.name in known:
        raise UserError(f"{where}: a tool of the app has this name; choose another")
    required: dict[str, Any] = {}
    optional: dict[str, Any] = {}
    for call in composite.calls:
        if call.tool not in known:
            raise UserError(f"{where}: there is no tool {call.tool!r}, but: {', '.join(known) or 'none'}")
        schema = known[call.tool]
        properties, needed = schema.get("properties", {}), schema.get("required", ())
        if missing := [name for name in needed if name not in call.arguments]:
            raise UserError(f"{where}: {call.tool} needs the argument {missing[0]!r}; name the parameter that fills it")
        for argument, parameter in call.arguments.items():
            if argument not in properties:
                raise UserError(f"{where}: {call.tool} has no argument {argument!r}, but: {', '.join(properties)}")
            other = {**required, **optional}.get(parameter, properties[argument])
            if other != properties[argument]:
                raise UserError(f"{where}: the parameter {parameter!r} fills arguments of different kinds")
            (required if argument in needed else optional)[parameter] = properties[argument]
    optional = {name: schema for name, schema in optional.items() if name not in required}
    return ToolSpec.of(composite.name, composite.description, required, optional)


async def carry_out(
    composite: Composite,
    arguments: Mapping[str, Any],
    tool: Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]],
) -> dict[str, Any]:
    """Calls the members in order; `result` is the list of theirs (null where none returned anything)."""
    results = []
    for call in composite.calls:
        filled = {name: arguments[parameter] for name, parameter in call.arguments.items() if parameter in arguments}
        done = await tool(call.tool, filled)
        if not done["success"]:
            return {"success": False, "result": None, "error_message": f"{call.tool}: {done['error_message']}"}
        results.append(done["result"])
    result = results if any(value is not None for value in results) else None
    return {"success": True, "result": result, "error_message": None}
