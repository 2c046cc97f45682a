"""LibreOffice with other programs beside it, for real: equal pixels, tasks played, what is out of reach, what dies."""

import base64
import io
import os
import signal
import time
from pathlib import Path

import pytest
from PIL import Image, ImageChops

from env_servers.check import trials
from env_servers.desktop.room import find_beside, find_python
from env_servers.errors import UserError
from env_servers.leases import Refusal
from env_servers.protocol.messages import CreateSessions, StepRequest
from env_servers.sessions import state_hash
from env_servers.suites.office.case import SCREEN

try:
    find_python()
    find_beside()
    MISSING = ""
except UserError as error:
    MISSING = str(error)
needs_programs = pytest.mark.skipif(bool(MISSING), reason=MISSING)
pytestmark = pytest.mark.desktop
SUITE = "office"
PROGRAMS = {"files/rename": "pcmanfm", "terminal/grep": "xterm", "editor/sum": "l3afpad", "mail/total": "chromium"}


def below(pid):
    """Process ids of all that a process has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        found = [int(word) for word in children.read_text().split()]
    except OSError:
        return []
    return [one for child in found for one in (child, *below(child))]


def named(pids, name):
    """Those of them that are called so."""
    found = []
    for pid in pids:
        try:
            found += [pid] if Path(f"/proc/{pid}/comm").read_text().strip() == name else []
        except OSError:
            continue
    return found


def gone(pids, patience_s=10):
    end = time.monotonic() + patience_s
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


CORNERS = 200  # px


def differs(one, other):
    """What differs between two pictures: nothing may beside LibreOffice, and of its own window nothing but the round
    corners of its widgets, which it blends with what was there as often as it draws them."""
    pictures = (Image.open(io.BytesIO(png)).convert("RGB") for png in (one, other))
    found = ImageChops.difference(*pictures)
    split = SCREEN.width - SCREEN.beside
    document = found.crop((0, 0, split, SCREEN.height))
    beside = found.crop((split, 0, SCREEN.width, SCREEN.height)).getbbox()
    return beside or (
        document.getbbox() if max(sum(band.histogram()[1:]) for band in document.split()) > CORNERS else None
    )


def test_what_is_missing_beside_is_said_with_the_packages(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    find_beside.cache_clear()
    try:
        with pytest.raises(UserError, match="the program pcmanfm beside LibreOffice: `apt-get install.*bubblewrap"):
            find_beside()
    finally:
        find_beside.cache_clear()


@needs_programs
@pytest.mark.parametrize("task", ["files/delete", "terminal/note", "mail/attachment"])
def test_two_desktops_begin_with_equal_states_and_equal_pixels_that_stay(run, lease, task):
    (one, instance), (other, _) = lease(task), lease(task)
    first, second = run(one.view()), run(other.view())
    assert first.state["document"] == first.state["saved"] == instance.case.before
    assert first.state["files"] == instance.case.beside and first.state["place"] == instance.initial["file"]
    assert len(first.state["windows"]) == 1 + len(instance.case.programs)
    assert state_hash(first.state) == state_hash(second.state)
    assert differs(first.png, second.png) is None
    time.sleep(1.3)  # a caret that blinks would be the other way now
    assert first.png == run(one.view()).png
    if "web" in instance.initial and instance.initial["web"]:
        assert first.state["web"] == instance.initial["web"]["state"]


@needs_programs
@pytest.mark.parametrize("task", ["files/move", "editor/sum", "terminal/grep", "mail/both", "mail/attachment"])
def test_tasks_are_right_by_hand_by_tools_and_not_by_less(run, store, task):
    found = run(trials(store, "office", task, 4))
    assert [str(trial) for trial in found if not trial.right] == [] and len(found) == 6


@needs_programs
def test_the_shell_sees_its_folder_alone_and_no_network(run, lease):
    desktop, instance = lease("terminal/grep")
    box = next(one["box"] for one in run(desktop.elements()) if one["name"] == "Terminal")
    spot = [round((box[0] + box[2]) / 2 / 1.6), round((box[1] + box[3]) / 2 / 0.9)]
    run(desktop.perform("desktop", {"action": "left_click", "coordinate": spot}))
    lines = (
        "ls / > found.txt; ls /user >> found.txt; id -u >> found.txt; cat /etc/passwd > passwd.txt",
        "cat /proc/net/dev | grep -c : > net.txt; touch /usr/mine && touch usr.txt; sleep 0.6; echo end > end.txt",
    )
    for line in lines:
        run(desktop.perform("desktop", {"action": "type", "text": f"{line}\n"}))
    files = run(desktop.view()).state["files"]
    assert files["found.txt"].split() == [*"bin dev lib lib64 proc tmp user usr".split(), "Documents", "1000"]
    assert files["passwd.txt"] == "" and "usr.txt" not in files
    assert files["net.txt"] == "1\n"  # the loopback device of its own
    assert files["end.txt"] == "end\n"  # the picture is taken when the commands have ended
    assert files["log.txt"] == instance.case.beside["log.txt"]


@needs_programs
@pytest.mark.parametrize("task", PROGRAMS)
def test_a_killed_program_is_a_fault_and_the_next_episode_clean(run, store, task):
    (held,) = run(store.create(CreateSessions(suite="office", task=task, seed=1)))
    session = store.get(held.session, held.token)
    first = run(store.reset(session))
    every = below(session.screen.pid)
    os.kill(named(every, PROGRAMS[task])[0], signal.SIGKILL)
    click = {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [300, 500]}}
    with pytest.raises(Refusal, match="env_crash: program_lost: the program|env_crash: program_lost: Chromium"):
        for step in range(3):  # it may take a moment to die
            run(store.step(session, StepRequest(episode=1, step=step, action=click)))
    verdict = run(store.evaluate(session))
    assert (verdict.outcome, verdict.score) == ("env_crash", None)
    assert gone(every) == []
    again = run(store.reset(session))
    assert again.state_hash == first.state_hash
    assert differs(*(base64.b64decode(reply.screenshot) for reply in (first, again))) is None
    run(store.close(session))


@needs_programs
def test_a_program_that_is_closed_is_the_policys_doing_and_nothing_of_it_is_left(run, desktops, lease):
    desktop, _ = lease("terminal/grep")
    every = below(desktop.pid)
    box = next(one["box"] for one in run(desktop.elements()) if one["name"] == "Terminal")
    spot = [round((box[0] + box[2]) / 2 / 1.6), round((box[1] + box[3]) / 2 / 0.9)]
    run(desktop.perform("desktop", {"action": "left_click", "coordinate": spot}))
    run(desktop.perform("desktop", {"action": "type", "text": "exit\n"}))
    assert len(run(desktop.view()).state["windows"]) == 1
    assert gone(named(every, "bash") + named(every, "bwrap") + named(every, "xterm")) == []


@needs_programs
def test_a_killed_host_takes_all_its_programs_with_it(run, desktops, lease):
    desktop, _ = lease("mail/total")
    every = below(desktop.pid)
    assert len(named(every, "chromium")) >= 3 and named(every, "Xvfb") and named(every, "soffice.bin")
    os.kill(desktop.pid, signal.SIGKILL)
    assert gone(every) == []
