"""What runs inside LibreOffice itself, where a call takes microseconds and not a good part of a millisecond.

In: what is asked, as its Python scripting calls it (`Office.inside_call`). Out: JSON. LibreOffice loads this module by
the stub `STUB` in its profile, through PYTHONPATH.
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import uno

from . import calc, impress, writer

APPS = {"calc": calc, "writer": writer, "impress": impress}
STUB = "from env_servers.desktop.inside import answer\n\ng_exportedScripts = (answer,)\n"
NAME = "gui_rl.py"
URI = f"vnd.sun.star.script:{NAME}$answer?language=Python&location=user"

VCL = ("libmergedlo.so", "libvcllo.so")
_CALM = (
    "_ZN11Application11GetSettingsEv",
    "_ZNK11AllSettings16GetStyleSettingsEv",
    "_ZN13StyleSettings18SetCursorBlinkTimeEm",
)
_SHOWING = 25  # com.sun.star.accessibility.AccessibleStateType
MOST_CHILDREN, DEEPEST = 400, 14  # what has more children is a sheet: its app says which of them count


def app_of(document: Any) -> Any:
    """The module of a document's app; KeyError-like None where there is none."""
    return next((app for app in APPS.values() if document.supportsService(app.SERVICE)), None)


def answer(what: str, document: Any) -> str:
    """JSON of `facts`, `elements` or `windows` of a document and its LibreOffice; of `calm`, which needs none."""
    asked = {"facts": facts, "elements": elements, "windows": windows, "calm": calm}
    return json.dumps(asked[what](document))


def calm(_: Any) -> bool:
    """Let carets stand still, in windows opened from now on; whether that could be done.

    VCL has a style for it, but its plug-in `gen` reads it from nowhere and UNO does not reach it: it is set by its C++
    functions, whose objects are passed on as they came.
    """
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    loaded = {words[5] for words in maps if len(words) > 5}
    for path in sorted(path for path in loaded if Path(path).name in VCL):
        library = ctypes.CDLL(path)
        try:
            settings, style, blink = (getattr(library, name) for name in _CALM)
        except AttributeError:  # another build calls them something else
            continue
        settings.restype = style.restype = ctypes.c_void_p
        style.argtypes, blink.argtypes, blink.restype = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_ulong], None
        blink(style(settings()), ctypes.c_ulong(-1))
        return True
    return False


def facts(document: Any) -> dict[str, Any]:
    """The document as its app's module describes it."""
    return app_of(document).facts(document)


def _top_windows() -> list[Any]:
    context = uno.getComponentContext()
    toolkit = context.ServiceManager.createInstanceWithContext("com.sun.star.awt.Toolkit", context)
    found = [toolkit.getTopWindow(k) for k in range(toolkit.getTopWindowCount())]
    return [window for window in found if window is not None and _showing(window.getAccessibleContext())]


def windows(document: Any) -> list[str]:
    """Titles of the windows beside the document's own."""
    own = document.CurrentController.Frame.ContainerWindow
    return [window.getAccessibleContext().getAccessibleName() for window in _top_windows() if window != own]


def elements(document: Any) -> list[dict[str, Any]]:
    """Named things in the document and in every window, [{"name", "box"}], those of the topmost window first."""
    found: list[dict[str, Any]] = []
    app = app_of(document)
    for window in reversed(_top_windows()):
        _walk(app, document, window.getAccessibleContext(), found, depth=0)
    names = app.named([one["name"] for one in found])
    return [{"name": name, "box": one["box"]} for one, name in zip(found, names)]  # noqa: B905  older Pythons


def _showing(context: Any) -> bool:
    return context is not None and bool(context.getAccessibleStateSet().contains(_SHOWING))


def _box(context: Any) -> list[int]:
    """[x0, y0, x1, y1] on the screen."""
    at, size = context.getLocationOnScreen(), context.getSize()
    return [at.X, at.Y, at.X + size.Width, at.Y + size.Height]


def _walk(app: Any, document: Any, context: Any, found: list[dict[str, Any]], depth: int) -> None:
    """Depth first through what is showing."""
    count = context.getAccessibleChildCount()
    if count > MOST_CHILDREN:
        found += [{"name": name, "box": _box(cell)} for name, cell in app.cells(document, context)]
        return
    for k in range(count if depth < DEEPEST else 0):
        child = context.getAccessibleChild(k)
        inner = getattr(child, "getAccessibleContext", lambda: None)()  # some parts of a tree tell nothing
        if not _showing(inner):
            continue
        name = inner.getAccessibleName()
        if name and not name.startswith("file:"):  # the document itself, called by where it lies
            x0, y0, x1, y1 = _box(inner)
            if x1 > x0 and y1 > y0:
                found.append({"name": name, "box": [x0, y0, x1, y1]})
        _walk(app, document, inner, found, depth + 1)
