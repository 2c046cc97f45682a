"""pyautogui scripts as OSWorld's clients send them: read, never evaluated."""

import pytest

from env_servers.adapters.pyautogui_script import parse, script_of

HEAD = "import pyautogui; import time; pyautogui.FAILSAFE = False; "

READ = {
    "pyautogui.click(10, 20)": [("left_click", {"x": 10, "y": 20})],
    "pyautogui.click(x=10.6, y=20, clicks=2)": [("double_click", {"x": 11, "y": 20})],
    "pyautogui.click((1, 2), button='right')": [("right_click", {"x": 1, "y": 2})],
    "pyautogui.rightClick()": [("right_click", {})],
    "pyautogui.moveTo(5, -6, duration=1)": [("mouse_move", {"x": 5, "y": -6})],
    "pyautogui.dragTo(5, 6, button='left')": [("left_click_drag", {"x": 5, "y": 6})],
    "pyautogui.scroll(-3)": [("scroll", {"pixels": -120, "at": False})],
    "pyautogui.hscroll(2, 1, 2)": [("hscroll", {"pixels": -80, "at": True, "x": 1, "y": 2})],
    "pyautogui.typewrite('a\\nb', interval=0.1)": [("type", {"text": "a\nb"})],
    "pyautogui.write(['a', 'enter'])": [("key", {"keys": ["a"]}), ("key", {"keys": ["enter"]})],
    "pyautogui.press('pgdn', presses=2)": [("key", {"keys": ["pagedown"]})] * 2,
    "pyautogui.hotkey('ctrl', 's')\ntime.sleep(0.5)": [("key", {"keys": ["ctrl", "s"]}), ("wait", {"time": 0.5})],
    "pyautogui.keyDown('shiftleft'); pyautogui.mouseUp(button='right')": [
        ("key_down", {"keys": ["shift"]}),
        ("mouse_up", {"button": "right"}),
    ],
}
REFUSED = {
    "import os": "not supported",
    "import pyautogui as p": "not supported",
    "from time import sleep": "not supported",
    "open('/etc/passwd')": "not supported",
    "pyautogui.screenshot('x.png')": "pyautogui.screenshot is not supported",
    "pyautogui.click(len('ab'), 3)": "line 1",
    "pyautogui.click(*[1, 2])": "line 1",
    "pyautogui.click(**{'x': 1})": "write its arguments out",
    "pyautogui.click('a', 'b')": "no point",
    "pyautogui.click(1)": "no point",
    "pyautogui.clicks(1, 2)": "not supported",
    "pyautogui.press('a', presses=10**9)": "line 1",
    "pyautogui.press('a', presses=100000)": "number of times",
    "time.sleep(1e9)": "no time",
    "time.sleep(50); time.sleep(50)": "sleeps longer",
    "for i in range(3): pyautogui.press('a')": "not supported",
    "x = 1": "not supported",
    "pyautogui.FAILSAFE = print(1)": "line 1",
    "pyautogui.hotkey()": "needs keys",
    "pyautogui.press(": "not Python",
    "lambda: 0": "not supported",
}


@pytest.mark.parametrize("script", READ)
def test_calls_are_read(script):
    assert parse(HEAD + script) == READ[script]


@pytest.mark.parametrize("script", REFUSED)
def test_anything_else_is_refused_with_its_reason(script):
    with pytest.raises(ValueError, match=REFUSED[script]):
        parse(script)


def test_only_python_with_a_script_is_a_command():
    assert script_of(["python", "-c", "pass"]) == script_of("python3 -c 'pass'") == "pass"
    for command in (["rm", "-r", "/"], "echo a", ["python", "x.py"], "python -c 'pass' more", []):
        with pytest.raises(ValueError, match="only `python -c`"):
            script_of(command)
