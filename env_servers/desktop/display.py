"""An X display of one's own: input by the XTest extension, pictures out of the server's frame buffer.

In: actions in pixels, key names, text. Out: the display has been given them when a method returns; PNG bytes of what it
shows, the mouse pointer included. Runs in the system's Python (python3-xlib).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import struct
import subprocess
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from Xlib import XK, X
from Xlib import display as xdisplay
from Xlib.error import BadDrawable, BadWindow
from Xlib.ext import xtest
from Xlib.protocol.event import ClientMessage, MappingNotify

START_S = 10.0
BUTTONS = {"left": 1, "middle": 2, "right": 3}
WHEEL_UP, WHEEL_DOWN, WHEEL_LEFT, WHEEL_RIGHT = 4, 5, 6, 7
NOTCH = 40  # px of scroll that one turn of the wheel stands for
MOST_NOTCHES = 100
DRAG_MOVES = 6
QUIET_S = 0.03  # without a change of the picture: it has settled
STROKE_S, REPEAT_S = 0.0015, 0.005  # between two keys; between two strokes of one, else it repeats itself
LONGEST_S = 1.0  # waited for that
_HEADER = 100  # of an XWD dump: 25 numbers
_KEYS = {
    "ctrl": "Control_L", "control": "Control_L", "alt": "Alt_L", "option": "Alt_L", "shift": "Shift_L",
    "meta": "Super_L", "cmd": "Super_L", "command": "Super_L", "super": "Super_L", "win": "Super_L",
    "enter": "Return", "return": "Return", "tab": "Tab", "esc": "Escape", "escape": "Escape", "space": "space",
    "backspace": "BackSpace", "delete": "Delete", "del": "Delete", "insert": "Insert", "home": "Home", "end": "End",
    "pageup": "Prior", "page_up": "Prior", "pagedown": "Next", "page_down": "Next",
    "up": "Up", "down": "Down", "left": "Left", "right": "Right",
    "arrowup": "Up", "arrowdown": "Down", "arrowleft": "Left", "arrowright": "Right",
    **{f"f{number}": f"F{number}" for number in range(1, 13)},
}  # fmt: skip


class NoSuchKey(Exception):
    """A key name that no keyboard has."""


def keysym(name: str) -> int:
    """The keysym of a key name or of one printable character; NoSuchKey for anything else."""
    known = _KEYS.get(name.lower())
    if known:
        return XK.string_to_keysym(known)
    if len(name) == 1 and name.isprintable():
        return character_keysym(name)
    raise NoSuchKey(f"there is no key {name!r}")


def character_keysym(character: str) -> int:
    """The keysym of a character: Latin-1 is itself, a line break Return, all others their code point (X11, app. A)."""
    if character in "\n\t":
        return XK.XK_Return if character == "\n" else XK.XK_Tab
    code = ord(character)
    return code if 0x20 <= code <= 0x7E or 0xA0 <= code <= 0xFF else 0x01000000 | code


def start_server(
    folder: Path, width: int, height: int, start: Callable[..., subprocess.Popen]
) -> tuple[subprocess.Popen, str]:
    """An X server of one's own on a free display, by `start`; (process, its name ":7"). RuntimeError if it cannot."""
    out, put = os.pipe()
    screen = ("-screen", "0", f"{width}x{height}x24", "-dpi", "96", "-fbdir", str(folder))
    process = start(
        "Xvfb", "-displayfd", str(put), *screen, "-nolisten", "tcp", "-noreset", signal="TERM", pass_fds=(put,)
    )
    os.close(put)
    with os.fdopen(out) as named:
        number = named.readline().strip()  # it ends with the server
    if not number:
        raise RuntimeError(f"Xvfb did not start (exit code {process.wait()})")
    return process, f":{number}"


class Display:
    """The display called `name`, whose server keeps its frame buffer in `folder`."""

    def __init__(self, name: str, folder: Path) -> None:
        self._x = xdisplay.Display(name)
        self._x.change_keyboard_control(auto_repeat_mode=X.AutoRepeatModeOff)
        self._root, self._pings = self._x.screen().root, 0
        self._root.change_attributes(event_mask=X.SubstructureNotifyMask)  # where answers to pings are sent
        with open(folder / "Xvfb_screen0", "rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        header = struct.unpack(">25I", self._memory[:_HEADER])
        if header[11] != 32 or header[7] != 0:
            raise RuntimeError("the display does not keep its pixels as 32 bits, blue first")
        self.width, self.height, self._row = header[4], header[5], header[12]
        self._start = header[0] + 12 * header[19]
        self.area = (self.width, self.height)  # px, from the upper left, that the first window is to fill
        self._spare: dict[int, int] = {}  # keycodes that were given to characters the keyboard lacks
        self.minimal = self._x.display.info.min_keycode

    # --- pictures ---------------------------------------------------------------------------------------------------
    def pixels(self) -> bytes:
        """The frame buffer as it is: rows of blue, green, red, nothing."""
        return self._memory[self._start : self._start + self._row * self.height]

    def settled(self, quiet_s: float = QUIET_S, longest_s: float = LONGEST_S) -> bytes:
        """The picture once it has not changed for `quiet_s`, at most `longest_s` from now."""
        self._x.sync()
        end, shown = time.monotonic() + longest_s, self.pixels()
        since = time.monotonic()
        while (now := time.monotonic()) < end and now - since < quiet_s:
            time.sleep(0.005)
            present = self.pixels()
            if present != shown:
                shown, since = present, time.monotonic()
        return shown

    def png(self, pixels: bytes) -> bytes:
        """A frame as PNG."""
        size = 3 * self.width
        colours = bytearray(size * self.height)
        whole = pixels if self._row == 4 * self.width else b"".join(self._rows(pixels))
        for place, source in ((0, 2), (1, 1), (2, 0)):
            colours[place::3] = whole[source::4]
        lines = b"".join(b"\0" + colours[y * size : (y + 1) * size] for y in range(self.height))

        def chunk(kind: bytes, data: bytes) -> bytes:
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        head = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 1)) + chunk(b"IEND", b"")
        return b"\x89PNG\r\n\x1a\n" + body

    def _rows(self, pixels: bytes) -> list[bytes]:
        return [pixels[y * self._row : y * self._row + 4 * self.width] for y in range(self.height)]

    # --- windows ----------------------------------------------------------------------------------------------------
    def _property(self, window: object, name: str) -> list:
        value = window.get_full_property(self._x.intern_atom(name), X.AnyPropertyType)
        return list(value.value) if value else []

    def _managed(self) -> list[Any]:
        """The managed windows, the first opened first."""
        return [self._x.create_resource_object("window", one) for one in self._property(self._root, "_NET_CLIENT_LIST")]

    def windows(self) -> list[tuple[str, tuple[int, int] | None]]:
        """The managed windows, the first opened first: (title, its width and height if it fills `area`)."""
        found = []
        for window in self._managed():
            with contextlib.suppress(BadWindow, BadDrawable):  # it has just gone
                titles = (self._x.intern_atom(name) for name in ("_NET_WM_NAME", "WM_NAME"))
                title = next(filter(None, (window.get_full_property(name, X.AnyPropertyType) for name in titles)), None)
                text = title.value if title else b""
                words = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
                found.append((words, self._fills(window)))
        return found

    def _fills(self, window: object) -> tuple[int, int] | None:
        """A window's size if it is that of `area` but for the frame that the window manager draws round it."""
        shown = window.get_geometry()
        left, right, top, bottom = self._property(window, "_NET_FRAME_EXTENTS") or (0, 0, 0, 0)
        whole = (shown.width + left + right, shown.height + top + bottom) == self.area
        return (shown.width, shown.height) if whole else None

    def clients(self) -> list[tuple[int, str, list[int]]]:
        """The managed windows, the first opened first: (id, class, the box of what lies in its frame)."""
        found = []
        for window in self._managed():
            with contextlib.suppress(BadWindow, BadDrawable):
                shown, corner = window.get_geometry(), window.translate_coords(self._root, 0, 0)
                x, y = -corner.x, -corner.y  # where the window is, seen from the display's corner
                name = (window.get_wm_class() or ("", ""))[1]
                found.append((window.id, name, [x, y, x + shown.width, y + shown.height]))
        return found

    def place(self, window_id: int, x: int, y: int, width: int, height: int) -> None:
        """Ask the window manager to put a window there, px, its frame included."""
        window = self._x.create_resource_object("window", window_id)
        left, right, top, bottom = self._property(window, "_NET_FRAME_EXTENTS") or (0, 0, 0, 0)
        if (window.get_wm_normal_hints() or {"win_gravity": 0})["win_gravity"] == X.StaticGravity:
            x, y = x + left, y + top  # its own place is meant, not its frame's
        window.configure(x=x, y=y, width=width - left - right, height=height - top - bottom)
        self._x.sync()

    def activate(self, window_id: int) -> None:
        """Ask the window manager to give a window the keyboard."""
        window = self._x.create_resource_object("window", window_id)
        kind = self._x.intern_atom("_NET_ACTIVE_WINDOW")
        event = ClientMessage(window=window, client_type=kind, data=(32, [2, X.CurrentTime, 0, 0, 0]))
        self._root.send_event(event, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)
        self._x.sync()

    def maximise(self) -> None:
        """Ask the window manager anew to let the first window fill `area`: the display by leaving that state and
        entering it again."""
        window_id = self._property(self._root, "_NET_CLIENT_LIST")[0]
        if self.area != (self.width, self.height):
            self.place(window_id, 0, 0, *self.area)
            return
        window = self._x.create_resource_object("window", window_id)
        ways = [self._x.intern_atom(f"_NET_WM_STATE_MAXIMIZED_{way}") for way in ("VERT", "HORZ")]
        for add in (0, 1):
            asked = (32, [add, *ways, 1, 0])
            event = ClientMessage(window=window, client_type=self._x.intern_atom("_NET_WM_STATE"), data=asked)
            self._root.send_event(event, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)
        self._x.sync()

    def handled(self, patience_s: float) -> bool:
        """Whether the programs have handled all input up to now: each has answered a ping (EWMH), which reaches it
        behind that input. False: not within `patience_s`. What knows no pings is not waited for."""
        self._pings += 1
        ping, kind = self._x.intern_atom("_NET_WM_PING"), self._x.intern_atom("WM_PROTOCOLS")
        first: dict[str, int] = {}  # window of each program
        for window_id, program, _ in self.clients():
            first.setdefault(program, window_id)
        waiting = set()
        for window_id in first.values():
            window = self._x.create_resource_object("window", window_id)
            with contextlib.suppress(BadWindow):
                if ping in self._property(window, "WM_PROTOCOLS"):
                    waiting.add(window_id)
                    event = ClientMessage(
                        window=window, client_type=kind, data=(32, [ping, self._pings, window_id, 0, 0])
                    )
                    window.send_event(event, event_mask=X.NoEventMask)
        self._x.flush()
        end = time.monotonic() + patience_s
        while waiting:
            while self._x.pending_events():
                event = self._x.next_event()
                if event.type == X.ClientMessage and list(event.data[1][:2]) == [ping, self._pings]:
                    waiting.discard(event.data[1][2])
            if waiting and time.monotonic() > end:
                return False
            if waiting:
                select.select([self._x], [], [], 0.05)
        return True

    def focused(self) -> bool:
        """Whether the topmost window has the keyboard."""
        stacked = self._property(self._root, "_NET_CLIENT_LIST_STACKING")
        return bool(stacked) and self._property(self._root, "_NET_ACTIVE_WINDOW") == stacked[-1:]

    def managed(self) -> bool:
        """Whether a window manager runs."""
        return bool(self._property(self._root, "_NET_SUPPORTING_WM_CHECK"))

    # --- input ------------------------------------------------------------------------------------------------------
    def _send(self, kind: int, detail: int = 0, x: int = 0, y: int = 0) -> None:
        xtest.fake_input(self._x, kind, detail, x=x, y=y)

    def move(self, x: int, y: int) -> None:
        """Move the pointer there."""
        self._send(X.MotionNotify, x=x, y=y)
        self._x.sync()

    def pointer(self) -> tuple[int, int]:
        """Where the pointer is, px."""
        at = self._root.query_pointer()
        return at.root_x, at.root_y

    def click(self, button: str, count: int = 1) -> None:
        """Where the pointer is."""
        for _ in range(count):
            self._send(X.ButtonPress, BUTTONS[button])
            self._send(X.ButtonRelease, BUTTONS[button])
        self._x.sync()

    def hold(self, button: str, down: bool) -> None:
        """Press a button where the pointer is and keep it so, or let it go."""
        self._send(X.ButtonPress if down else X.ButtonRelease, BUTTONS[button])
        self._x.sync()

    def hold_keys(self, names: list[str], down: bool) -> None:
        """Press keys and keep them so, or let them go. NoSuchKey before anything is pressed."""
        for code in [self._code(keysym(name))[0] for name in names]:
            self._send(X.KeyPress if down else X.KeyRelease, code)
        self._x.sync()

    def drag(self, x: int, y: int) -> None:
        """From where the pointer is, in steps, as a program takes one long move for none."""
        x0, y0 = self.pointer()
        self._send(X.ButtonPress, 1)
        self._x.sync()
        for k in range(1, DRAG_MOVES + 1):
            self.move(round(x0 + (x - x0) * k / DRAG_MOVES), round(y0 + (y - y0) * k / DRAG_MOVES))
            time.sleep(0.01)
        self._send(X.ButtonRelease, 1)
        self._x.sync()

    def wheel(self, pixels: float, sideways: bool = False) -> None:
        """Positive: up, or to the left. At least one turn, unless it is nothing."""
        turns = min(MOST_NOTCHES, max(1, round(abs(pixels) / NOTCH))) if pixels else 0
        forward, back = (WHEEL_LEFT, WHEEL_RIGHT) if sideways else (WHEEL_UP, WHEEL_DOWN)
        for _ in range(turns):
            button = forward if pixels > 0 else back
            self._send(X.ButtonPress, button)
            self._send(X.ButtonRelease, button)
        self._x.sync()

    def _code(self, symbol: int) -> tuple[int, bool]:
        """(keycode, whether with Shift); a character that the keyboard lacks is given a spare key."""
        for code, place in self._x.keysym_to_keycodes(symbol):
            if place in (0, 1):
                return code, place == 1
        if symbol not in self._spare:
            spare = self._unused()
            self._x.change_keyboard_mapping(spare, [(symbol, symbol)])
            self._x.sync()
            changed = MappingNotify(request=X.MappingKeyboard, first_keycode=spare, count=1)
            self._x.refresh_keyboard_mapping(changed)
            self._spare[symbol] = spare
            time.sleep(0.05)  # the programs read the keyboard anew
        return self._spare[symbol], False

    def _unused(self) -> int:
        first, last = self.minimal, 255
        mapping = self._x.get_keyboard_mapping(first, last - first + 1)
        taken = set(self._spare.values())
        free = [first + k for k, symbols in enumerate(mapping) if not any(symbols) and first + k not in taken]
        if free:
            return free[-1]
        symbol, code = next(iter(self._spare.items()))  # the one given longest ago
        del self._spare[symbol]
        return code

    def press(self, names: list[str]) -> None:
        """Keys held together in this order, then let go in the reverse order. NoSuchKey before anything is pressed."""
        codes = [self._code(keysym(name.lower() if len(names) > 1 and len(name) == 1 else name)) for name in names]
        shift = self._code(XK.XK_Shift_L)[0]
        held = [code for code, shifted in codes for code in ([shift, code] if shifted else [code])]
        for code in held:
            self._send(X.KeyPress, code)
        for code in reversed(held):
            self._send(X.KeyRelease, code)
        self._x.sync()

    def type(self, text: str) -> None:
        """Text character by character, as a person would; a line break is Return."""
        shift = self._code(XK.XK_Shift_L)[0]
        last = -1
        for character in text:
            code, shifted = self._code(character_keysym(character))
            self._x.sync()
            time.sleep(REPEAT_S if code == last else STROKE_S)
            last = code
            if shifted:
                self._send(X.KeyPress, shift)
            self._send(X.KeyPress, code)
            self._send(X.KeyRelease, code)
            if shifted:
                self._send(X.KeyRelease, shift)
        self._x.sync()
