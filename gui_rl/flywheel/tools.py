"""The library of tools that trajectories gave rise to (ToolCUA, section 2.2, stage 2; appendix E).

In: documents of tools, as an annotator writes them; or plans that reached the goal with the tools of a world. Out:
`LibraryTool`s, each checked: a name with the application's prefix, a signature, `{success, result, error_message}` as
result, a category, a granularity. What can be put right without guessing at the meaning is, and is counted.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from env_servers.protocol.messages import Composite
from env_servers.suites.composite import spec_of
from env_servers.suites.suite import ToolSpec
from gui_rl.data.schema import Episode
from gui_rl.errors import UserError
from gui_rl.flywheel.plans import Plan, is_tool

CATEGORIES = ("navigation", "interaction", "extraction", "filesystem", "system", "terminate")
GRANULARITIES = ("fine", "mid", "coarse")
RETURNS = {
    "type": "object",
    "properties": {
        "success": {"type": "boolean"},
        "result": {"type": ["object", "array", "string", "null"]},
        "error_message": {"type": ["string", "null"]},
    },
    "required": ["success", "result", "error_message"],
}
"""What every tool returns (appendix E)."""
FINE_STEPS = 2
"""A tool of one sub-task is fine where it stands for at most so many recorded steps, else mid: the limit is ours."""
_TYPES = {
    "str": "string", "text": "string", "int": "integer", "float": "number", "double": "number", "bool": "boolean",
    "list": "array", "dict": "object", "none": "null",
}  # fmt: skip
_JSON_TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")


@dataclasses.dataclass(frozen=True)
class LibraryTool:
    """A tool as the library holds it.

    name: begins with the application's, or with `general_`. parameters: JSON schema. category, granularity: one of
    `CATEGORIES`, `GRANULARITIES`. members: names of the tools that a composite calls, in order. made_by: who wrote it.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    category: str
    granularity: str
    members: tuple[str, ...] = ()
    made_by: str = "exact"

    def to_dict(self) -> dict[str, Any]:
        """A line of the library."""
        return {**dataclasses.asdict(self), "members": list(self.members), "returns": RETURNS}


def check_tool(document: Any, app: str) -> LibraryTool:
    """The tool of a document as an annotator writes it (appendix E: tool generation), checked.

    Raises UserError that names the tool, the field and what is wrong with it.
    """
    if not isinstance(document, Mapping):
        raise UserError(f"a tool is a JSON object, not {str(document)[:60]!r}")
    name = document.get("name")
    where = f"tool {name!r}"

    def wrong(field: str, what: str) -> UserError:
        return UserError(f"{where}: {field} {what}")

    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_.]*", name):
        raise wrong("name", "must be lowercase words joined by underscores")
    if not name.startswith((f"{app}.", f"{app}_", "general_")):
        raise wrong("name", f"must begin with {app}_ or, where it belongs to no application, with general_")
    if not isinstance(document.get("description"), str) or not document["description"].strip():
        raise wrong("description", "is missing")
    parameters = document.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if not isinstance(properties, Mapping) or parameters.get("type") != "object":
        raise wrong("parameters", "must be a JSON schema of type object with properties")
    for argument, schema in properties.items():
        types = schema.get("type") if isinstance(schema, Mapping) else None
        types = [types] if isinstance(types, str) else types
        if not (isinstance(schema, Mapping) and ("enum" in schema or types and all(t in _JSON_TYPES for t in types))):
            raise wrong(f"parameter {argument!r}", f"has no JSON type: {schema!r}")
    if unknown := [argument for argument in parameters.get("required", ()) if argument not in properties]:
        raise wrong("parameters", f"require {unknown[0]!r}, which is no parameter")
    if document.get("category") not in CATEGORIES:
        raise wrong("category", f"must be one of {', '.join(CATEGORIES)}, not {document.get('category')!r}")
    if document.get("granularity") not in GRANULARITIES:
        raise wrong("granularity", f"must be one of {', '.join(GRANULARITIES)}, not {document.get('granularity')!r}")
    returns = document.get("returns")
    returned = returns.get("properties") if isinstance(returns, Mapping) else None
    if not isinstance(returned, Mapping) or not set(RETURNS["required"]) <= set(returned):
        raise wrong("returns", "must hold success, result and error_message")
    return LibraryTool(
        name, document["description"], parameters, document["category"], document["granularity"],
        tuple(document.get("members", ())), str(document.get("made_by", "exact")),
    )  # fmt: skip


def repaired(document: Any, app: str) -> tuple[LibraryTool, tuple[str, ...]]:
    """(the tool, the fields that had to be put right). Meaning is never guessed: what has no name, no description or no
    readable parameters is past repair.

    Raises UserError, of `check_tool`, for what is past repair.
    """
    try:
        return check_tool(document, app), ()
    except UserError:
        if not isinstance(document, Mapping):
            raise
    fixed, touched = dict(document), []

    def put(field: str, value: Any) -> None:
        if value != fixed.get(field):
            fixed[field] = value
            touched.append(field)

    if isinstance(fixed.get("name"), str):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", fixed["name"])
        name = re.sub(r"[^a-z0-9_.]+", "_", words.lower()).strip("_.")
        put("name", name if not name or name.startswith((f"{app}.", f"{app}_", "general_")) else f"{app}_{name}")
    parameters = fixed.get("parameters")
    if parameters in (None, {}, []):
        put("parameters", {"type": "object", "properties": {}, "required": []})
    elif isinstance(parameters, Mapping):
        plain = {k: v for k, v in parameters.items() if isinstance(v, Mapping) and k != "properties"}
        properties = parameters.get("properties", plain)
        if isinstance(properties, Mapping):
            properties = {argument: _typed(schema) for argument, schema in properties.items()}
            required = [a for a in parameters.get("required", ()) if a in properties]
            put("parameters", {"type": "object", "properties": properties, "required": required})
    for field, default, known in (
        ("category", "interaction", CATEGORIES),
        ("granularity", "fine", GRANULARITIES),
    ):
        said = str(fixed.get(field, "")).strip().lower()
        put(field, said if said in known else default)
    returned = fixed["returns"].get("properties") if isinstance(fixed.get("returns"), Mapping) else None
    if not isinstance(returned, Mapping) or not set(RETURNS["required"]) <= set(returned):
        put("returns", RETURNS)
    return check_tool(fixed, app), tuple(touched)


def _typed(schema: Any) -> Any:
    if isinstance(schema, str):
        schema = {"type": schema}
    if not isinstance(schema, Mapping) or not isinstance(schema.get("type"), str):
        return schema
    said = schema["type"].strip().lower()
    return {**schema, "type": _TYPES.get(said, said)}


class Library:
    """The tools that plans which reached the goal have used."""

    def __init__(self) -> None:
        self._lengths: dict[str, list[int]] = defaultdict(list)
        self._changed: dict[str, bool] = defaultdict(bool)
        self._composites: dict[str, Composite] = {}

    def add(self, plan: Plan, episode: Episode) -> None:
        """Notes how many recorded steps each call stood for, and whether it changed the state."""
        for step, turn in zip(plan.steps, filter(is_tool, episode.turns), strict=True):
            name = step.call["name"]
            self._lengths[name].append(step.end - step.start)
            after = episode.turns[turn.index + 1].state_hash if turn.index + 1 < len(episode.turns) else ""
            self._changed[name] |= turn.state_hash != after
            if step.composite is not None:
                self._composites[name] = step.composite

    def tools(self, specs: Mapping[str, ToolSpec]) -> list[LibraryTool]:
        """The tools by name; `specs`: of the apps' own. One whose calls changed no state is an extraction."""
        tools = []
        for name, lengths in sorted(self._lengths.items()):
            composite = self._composites.get(name)
            spec = specs[name] if composite is None else spec_of(composite, list(specs.values()))
            granularity = "coarse" if composite else "fine" if statistics.median(lengths) <= FINE_STEPS else "mid"
            category = "filesystem" if name.startswith("files.") else "interaction"
            members = () if composite is None else tuple(call.tool for call in composite.calls)
            tools.append(
                LibraryTool(
                    name, spec.description, spec.parameters, category if self._changed[name] else "extraction",
                    granularity, members,
                )
            )  # fmt: skip
        return [check_tool(tool.to_dict(), tool.name.split(".")[0]) for tool in tools]
