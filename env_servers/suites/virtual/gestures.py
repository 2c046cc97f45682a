"""The script's hand: from a target on the screen to the call and the sentence of one move.

In: the device family, the screen's size in css px and the elements that the page reports. Out: `Move`s, whose call is
in the vocabulary of the device's GUI function with coordinates on the 0-1000 grid, and whose conclusion names the
target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from env_servers.protocol.actions import FUNCTIONS, from_pixels

Box = tuple[float, float, float, float]
CallDict = dict[str, Any]


@dataclass(frozen=True)
class Element:
    """A visible interactive element: its name as sentences say it and its box (x0, y0, x1, y1) in css px."""

    name: str
    box: Box

    @property
    def centre(self) -> tuple[float, float]:
        """The middle of its box, css px."""
        x0, y0, x1, y1 = self.box
        return (x0 + x1) / 2, (y0 + y1) / 2


@dataclass(frozen=True)
class Move:
    """One step of a script: `call` is {"name", "arguments"}; `box` the target in css px, None where there is none."""

    call: CallDict
    conclusion: str
    box: Box | None = None


def elements_of(records: Sequence[Mapping[str, Any]]) -> list[Element]:
    """What `window.app.elements()` returns, as `Element`s."""
    return [Element(str(record["name"]), tuple(float(side) for side in record["box"])) for record in records]


_POINTING = {"mobile": "Tap", "desktop": "Click", "web": "Click"}
_CLICK = {"mobile": "click", "desktop": "left_click", "web": "click"}


@dataclass(frozen=True)
class Hand:
    """Makes moves for one device family on a screen of `width` x `height` css px."""

    device: str
    width: int
    height: int

    def _call(self, action: str, **arguments: Any) -> CallDict:
        return {"name": FUNCTIONS[self.device], "arguments": {"action": action, **arguments}}

    def _grid(self, x: float, y: float) -> list[int]:
        return list(from_pixels(round(x), round(y), self.width, self.height))

    def _at(self, elements: Sequence[Element], name: str) -> Element:
        for element in elements:
            if element.name == name:
                return element
        shown = ", ".join(element.name for element in elements)
        raise ValueError(f"the script looks for {name!r} on a screen that shows only: {shown}")

    def _point(self, action: str, elements: Sequence[Element], name: str, sentence: str) -> Move:
        element = self._at(elements, name)
        return Move(self._call(action, coordinate=self._grid(*element.centre)), sentence, element.box)

    def tap(self, elements: Sequence[Element], name: str) -> Move:
        """A click or tap on the element called `name`; raises ValueError where it is not on the screen."""
        return self._point(_CLICK[self.device], elements, name, f"{_POINTING[self.device]} the {name}.")

    def hold(self, elements: Sequence[Element], name: str) -> Move:
        """A long press (mobile)."""
        return self._point("long_press", elements, name, f"Hold the {name}.")

    def double(self, elements: Sequence[Element], name: str) -> Move:
        """A double click (desktop)."""
        return self._point("double_click", elements, name, f"Open the {name}.")

    def mark(self, elements: Sequence[Element], name: str) -> Move:
        """A double click that marks a word or opens a field (desktop)."""
        return self._point("double_click", elements, name, f"Double click the {name}.")

    def triple(self, elements: Sequence[Element], name: str) -> Move:
        """A triple click, which marks a whole paragraph (desktop)."""
        return self._point("triple_click", elements, name, f"Triple click the {name}.")

    def hover(self, elements: Sequence[Element], name: str) -> Move:
        """The mouse onto `name`: a drag starts there (desktop)."""
        return self._point("mouse_move", elements, name, f"Move to the {name}.")

    def wheel(self, elements: Sequence[Element], name: str, pixels: int) -> Move:
        """The wheel over `name` by `pixels`, positive up (desktop)."""
        element = self._at(elements, name)
        call = self._call("scroll", pixels=pixels, coordinate=self._grid(*element.centre))
        return Move(call, f"Scroll {'up' if pixels > 0 else 'down'}.", element.box)

    def hwheel(self, elements: Sequence[Element], name: str, pixels: int) -> Move:
        """The wheel sideways over `name` by `pixels`, positive left (desktop)."""
        element = self._at(elements, name)
        call = self._call("hscroll", pixels=pixels, coordinate=self._grid(*element.centre))
        return Move(call, f"Scroll {'left' if pixels > 0 else 'right'}.", element.box)

    def middle(self, elements: Sequence[Element], name: str) -> Move:
        """A middle click (desktop)."""
        return self._point("middle_click", elements, name, f"Middle click the {name}.")

    def context(self, elements: Sequence[Element], name: str) -> Move:
        """A right click (desktop)."""
        return self._point("right_click", elements, name, f"Right click the {name}.")

    def drag(self, elements: Sequence[Element], name: str, onto: str) -> Move:
        """A drag to `onto` from where the mouse is, which must be on `name` already (desktop)."""
        return self._point("left_click_drag", elements, onto, f"Drag the {name} to the {onto}.")

    def drag_to(self, name: str, where: str, x: float, y: float) -> Move:
        """A drag to a point from where the mouse is, which must be on `name` already; `where` says it (desktop)."""
        return Move(self._call("left_click_drag", coordinate=self._grid(x, y)), f"Drag the {name} to the {where}.")

    def swipe(self, direction: str) -> Move:
        """A vertical swipe through the middle of the screen (mobile): "up" shows what lies below."""
        low, high = [500, 700], [500, 300]
        start, end = (low, high) if direction == "up" else (high, low)
        return Move(self._call("swipe", coordinate=start, coordinate2=end), f"Swipe {direction}.")

    def stroke(self, elements: Sequence[Element], name: str, onto: str) -> Move:
        """A swipe from `name` to `onto`: a drag by the finger (mobile)."""
        start, end = self._at(elements, name), self._at(elements, onto)
        call = self._call("swipe", coordinate=self._grid(*start.centre), coordinate2=self._grid(*end.centre))
        return Move(call, f"Drag the {name} to the {onto}.", start.box)

    def slide(self, dx: float, dy: float) -> Move:
        """A swipe that moves what is under the middle of the screen by (dx, dy) css px, at most 0.4 of it (mobile)."""
        dx, dy = (max(-0.4, min(0.4, d / side)) for d, side in ((dx, self.width), (dy, self.height)))
        end = [500 + round(1000 * dx), 500 + round(1000 * dy)]
        ways = ["left" if dx < 0 else "right"] * (abs(dx) > 0.03) + ["up" if dy < 0 else "down"] * (abs(dy) > 0.03)
        return Move(self._call("swipe", coordinate=[500, 500], coordinate2=end), f"Swipe {' and '.join(ways)}.")

    def scroll(self, direction: str) -> Move:
        """A page-wise scroll (web)."""
        return Move(self._call("scroll", direction=direction), f"Scroll {direction}.")

    def back(self) -> Move:
        """The page before (web)."""
        return Move(self._call("go_back"), "Go back.")

    def select(self, elements: Sequence[Element], name: str, option: str) -> Move:
        """An option of the list called `name` (web)."""
        element = self._at(elements, name)
        call = self._call("select", option=option, coordinate=self._grid(*element.centre))
        return Move(call, f"Select {option}.", element.box)

    def keys(self, *keys: str) -> Move:
        """A key or a combination of keys (desktop)."""
        return Move(self._call("key", keys=list(keys)), f"Press {' '.join(keys)}.")

    def system(self, button: str) -> Move:
        """A button of the phone itself (mobile)."""
        return Move(self._call("system_button", button=button), f"Press {button.lower()}.")

    def type(self, text: str) -> Move:
        """Text into the focused box."""
        return Move(self._call("type", text=text), f"Type {text}.")

    def enter(self, elements: Sequence[Element], name: str, text: str) -> Move:
        """Text into the box called `name`, in place of what it holds (web: one action); a last line break is Enter."""
        element = self._at(elements, name)
        call = self._call("type", text=text, coordinate=self._grid(*element.centre))
        return Move(call, f"Type {text.strip()} into the {name}.", element.box)

    def wait(self, seconds: float) -> Move:
        """Time for the screen."""
        return Move(self._call("wait", time=seconds), "Wait.")

    def answer(self, text: str) -> Move:
        """The answer to the question of the task."""
        return Move(self._call("answer", text=text), f"Answer {text}.")

    def finish(self) -> Move:
        """The end of a task that is done."""
        return Move(self._call("terminate", status="success"), "The task is done.")

    def give_up(self) -> Move:
        """The end of a task that cannot be done."""
        return Move(self._call("terminate", status="failure"), "The task can not be done.")

    def sentences(self, names: Sequence[str]) -> list[str]:
        """Every conclusion that this hand could write about elements called `names`, for the tokenizer's training."""
        verbs = {
            "mobile": ("Tap the {}.", "Hold the {}."),
            "desktop": (
                "Click the {}.",
                "Open the {}.",
                "Right click the {}.",
                "Drag the {} to the red folder.",
                "Drag the {} to the back.",
            ),
            "web": ("Click the {}.", "Type {}."),
        }[self.device]
        fixed = {
            "mobile": ("Swipe up.", "Swipe down.", "Press back."),
            "desktop": ("Press delete.", "Press ctrl c.", "Press ctrl v.", "Press backspace.", "Press escape."),
            "web": ("Scroll down.", "Scroll up."),
        }[self.device]
        ends = (self.finish().conclusion, self.give_up().conclusion, *(f"Answer {n}." for n in range(10)))
        return [verb.format(name) for name in names for verb in verbs] + [*fixed, *ends]
