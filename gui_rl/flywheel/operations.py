"""Scripts by decomposition: an instruction into atomic operations that a world carries out (GUI-Owl-1.5, 2.2.2).

In: an instruction, and what the screen offers. Out: `Operation`s, from an annotator that sees the first screen and the
names on it, or exactly, from the moves of the task's own script; and an agent that carries them out, finding every
target by its name on the screen of the moment. What that reached is checked like any other trajectory (`collect`).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from env_servers.protocol.actions import Call
from env_servers.protocol.messages import ScriptReply
from env_servers.suites.virtual.gestures import Element, Hand, Move
from gui_rl.flywheel.annotator import Annotator, AnnotatorError, Question, ask_json
from gui_rl.prompt.render import encode_response, response_text
from gui_rl.rollout.agents import Prompts, Reply, View

_DIRECTIONS = ("up", "down", "left", "right")
_EVERYWHERE: dict[str, tuple[str, ...]] = {
    "tap": ("target",), "type": ("text",), "wait": ("seconds",), "answer": ("text",), "finish": (), "give_up": (),
}  # fmt: skip
KINDS: dict[str, dict[str, tuple[str, ...]]] = {
    "mobile": {**_EVERYWHERE, "hold": ("target",), "swipe": ("direction",), "system": ("button",)},
    "desktop": {**_EVERYWHERE, "double": ("target",), "context": ("target",), "drag": ("onto",), "keys": ("keys",)},
    "web": {**_EVERYWHERE, "scroll": ("direction",), "select": ("target", "option")},
}
"""Operations by device family, and what each needs. They are the gestures of a script's hand; `drag` begins where the
mouse was pressed last."""


@dataclasses.dataclass(frozen=True)
class Operation:
    """One gesture. `kind` is one of the family's `KINDS`, `arguments` what that needs."""

    kind: str
    arguments: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As an annotator writes it."""
        return {"op": self.kind, **self.arguments}


def read_operations(value: Any, device: str) -> list[Operation]:
    """The operations of an annotator's answer. Raises ValueError for one that the device does not have."""
    if not isinstance(value, list) or not value:
        raise ValueError("need a list of operations")
    made = []
    for number, item in enumerate(value):
        kind = item.get("op") if isinstance(item, dict) else None
        if kind not in KINDS[device]:
            raise ValueError(f"operation {number}: {kind!r} is none of {', '.join(KINDS[device])}")
        arguments = {name: given for name, given in item.items() if name != "op"}
        if set(arguments) != set(KINDS[device][kind]):
            raise ValueError(f"operation {number}: {kind} needs {KINDS[device][kind]}, not {sorted(arguments)}")
        if arguments.get("direction", "up") not in _DIRECTIONS:
            raise ValueError(f"operation {number}: direction {arguments['direction']!r}")
        for name, given in arguments.items():
            fits = {"seconds": int | float, "keys": list}.get(name, str)
            if not isinstance(given, fits) or isinstance(given, bool):
                raise ValueError(f"operation {number}: {name} is {given!r}")
        made.append(Operation(kind, arguments))
    return made


DECOMPOSE = (
    "Break this instruction to a GUI agent into atomic operations, one gesture each, the end of the task included.\n"
    "Instruction: {instruction}\nThe picture is the first screen. Elements on it: {names}. Later screens may "
    "show others.\nOperations and what they need: {kinds}\n"
    'Answer with JSON: a list like [{{"op": "tap", "target": "..."}}, {{"op": "finish"}}]'
)


async def decompose(
    annotator: Annotator, instruction: str, device: str, names: Sequence[str], screen: bytes, facts: Any = None
) -> list[Operation]:
    """Atomic operations for an instruction. Raises RubbishError for an answer that holds none."""
    kinds = "; ".join(f"{kind}({', '.join(needs)})" for kind, needs in KINDS[device].items())
    text = DECOMPOSE.format(instruction=instruction, names=", ".join(names), kinds=kinds)
    question = Question("decompose", text, images=(screen,) if screen else (), facts=facts)
    return await ask_json(annotator, question, lambda value: read_operations(value, device))


def perform(operation: Operation, hand: Hand, elements: Sequence[Element]) -> Move:
    """The move of an operation on the present screen. Raises ValueError where its target is not there."""
    given = operation.arguments
    match operation.kind:
        case "tap" | "hold" | "double" | "context":
            return getattr(hand, operation.kind)(elements, given["target"])
        case "drag":
            return hand.drag(elements, "thing", given["onto"])
        case "select":
            return hand.select(elements, given["target"], given["option"])
        case "keys":
            return hand.keys(*given["keys"])
        case "swipe" | "scroll":
            return getattr(hand, operation.kind)(given["direction"])
        case "system" | "type" | "wait" | "answer":
            (value,) = given.values()
            return getattr(hand, operation.kind)(value)
    return getattr(hand, operation.kind)()


def operation_of(move: ScriptReply, device: str) -> Operation:
    """The operation behind a script's move: exact, since the script knows its target. Raises ValueError for a tool."""
    given = move.action.arguments
    target = next((element.name for element in move.elements if move.box is not None and element.box == move.box), "")
    action = given.get("action", move.action.name)
    if action in ("click", "left_click"):
        return Operation("tap", {"target": target})
    pointing = {"long_press": "hold", "double_click": "double", "right_click": "context"}
    if action in pointing:
        return Operation(pointing[action], {"target": target})
    match action:
        case "left_click_drag":
            return Operation("drag", {"onto": target})
        case "swipe":
            up = given["coordinate"][1] > given["coordinate2"][1]
            return Operation("swipe", {"direction": "up" if up else "down"})
        case "scroll":
            return Operation("scroll", {"direction": given["direction"]})
        case "select":
            return Operation("select", {"target": target, "option": given["option"]})
        case "key":
            return Operation("keys", {"keys": list(given["keys"])})
        case "system_button":
            return Operation("system", {"button": given["button"]})
        case "type" | "answer":
            return Operation(action, {"text": given["text"]})
        case "wait":
            return Operation("wait", {"seconds": given["time"]})
        case "terminate":
            return Operation("finish" if given["status"] == "success" else "give_up", {})
    raise ValueError(f"{json.dumps(move.action.model_dump())} on {device} is no gesture")


@dataclasses.dataclass
class DecomposingAgent:
    """Asks for a plan on the first screen and carries it out; sessions must offer their script (for the elements).

    `failed` counts episodes that had no plan, or whose target was not on the screen: they end with
    `terminate(failure)`. facts: by episode, for an exact annotator.
    """

    prompts: Prompts
    annotator: Annotator
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    source: str = "script"
    failed: int = 0

    def __post_init__(self):
        self._plans: dict[str, list[Operation]] = {}

    async def act(self, view: View) -> Reply:
        """The next operation of the plan."""
        shown = await view.session.script()
        elements = [Element(element.name, element.box) for element in shown.elements]
        lease = view.session.lease
        hand = Hand(view.device, lease.css_width, lease.css_height)
        try:
            if not view.history:
                names = [element.name for element in elements]
                self._plans[view.episode] = await decompose(
                    self.annotator, view.instruction, view.device, names, view.png, self.facts.get(view.episode)
                )
            plan = self._plans[view.episode]
            move = perform(plan[len(view.history)], hand, elements) if len(view.history) < len(plan) else hand.finish()
        except (AnnotatorError, ValueError, KeyError):
            self.failed += 1
            move = hand.give_up()
        text = response_text(move.conclusion, Call(move.call["name"], dict(move.call["arguments"])))
        ids = encode_response(self.prompts.tokenizer, text)
        return Reply(text, self.prompts.of(view), ids, box=move.box)
