"""Real LibreOffice on real displays: tasks played, tools, equal pixels, and what happens when something dies."""

import asyncio
import base64
import io
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from PIL import Image, ImageChops

from env_servers import orphans
from env_servers.check import trials
from env_servers.desktop.room import PREFIX, Desktop, DesktopLost, Desktops, find_python, reap
from env_servers.errors import UserError
from env_servers.leases import Refusal
from env_servers.protocol.messages import CreateSessions, StepRequest
from env_servers.screens import Screens, Unsupported
from env_servers.sessions import SessionStore, state_hash
from env_servers.suites import instantiate
from env_servers.suites.libreoffice.case import SCREENS
from env_servers.suites.suite import PageKind
from gui_rl.data.samples import record_sample
from gui_rl.data.schema import TurnRecord
from gui_rl.data.trajectory_files import read_trajectories
from gui_rl.evaluate.command import EvalOptions
from gui_rl.evaluate.command import run as evaluate

try:
    find_python()
    MISSING = ""
except UserError as error:
    MISSING = str(error)
needs_desktop = pytest.mark.skipif(bool(MISSING), reason=MISSING)
pytestmark = pytest.mark.desktop
SUITE = "libreoffice"


def processes(desktop_folder):
    """Processes that have a desktop's folder on their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(desktop_folder) in words:
            found.append((int(entry.parent.name), words.split("\0")[0]))
    return found


def pid_of(desktop, name):
    return next(pid for pid, program in processes(desktop.folder) if program.endswith(name))


def gone(folder, patience_s=10):
    end = time.monotonic() + patience_s
    while (folder.exists() or processes(folder)) and time.monotonic() < end:
        time.sleep(0.05)
    return not folder.exists() and not processes(folder)


def picture(view):
    return Image.open(io.BytesIO(view.png)).convert("RGB")


# --- without LibreOffice ---------------------------------------------------------------------------------------------
def test_what_is_missing_is_said_in_one_line_with_the_packages(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    find_python.cache_clear()
    try:
        with pytest.raises(UserError, match="the program soffice: `apt-get install.*libreoffice-calc.*python3-uno"):
            find_python()
    finally:
        find_python.cache_clear()


def test_a_kind_that_nothing_draws_is_refused(run):
    with pytest.raises(UserError, match="nothing here draws a PageKind: 'x'"):
        run(Screens({}).lease(PageKind("x", "", 10, 10)))


def test_disturbances_are_for_pages(run):
    store = SessionStore(Screens({}))
    asked = CreateSessions(suite="libreoffice", task="calc/sum", seed=1, disturb=["popup"])
    with pytest.raises(Refusal, match="disturbances lie over pages only"):
        run(store.create(asked))


# --- the room --------------------------------------------------------------------------------------------------------
@needs_desktop
def test_the_document_opens_as_its_model_says_with_equal_pixels_everywhere(run, lease):
    for task in ("calc/sum", "writer/word", "impress/title"):
        one, instance = lease(task)
        other, _ = lease(task)
        first, second = run(one.view()), run(other.view())
        assert first.state["document"] == first.state["saved"] == instance.case.before
        assert (first.width, first.height) == (instance.page.width, instance.page.height) == picture(first).size
        assert first.state["windows"] == second.state["windows"] and len(first.state["windows"]) == 1
        assert state_hash(first.state) == state_hash(second.state)
        time.sleep(0.3)
        for seen in (second, run(one.view()), run(other.view())):  # a caret that blinked would be dark in one of them
            assert ImageChops.difference(picture(first), picture(seen)).getbbox() is None, task


@needs_desktop
def test_an_episode_leaves_nothing_to_the_next(run, lease):
    desktop, instance = lease("calc/sum")
    before = run(desktop.view())
    run(desktop.perform("desktop", {"action": "type", "text": "left behind\n"}))
    assert run(desktop.view()).state != before.state
    run(desktop.load(instance.initial))
    after = run(desktop.view())
    assert after.state == before.state
    assert ImageChops.difference(picture(before), picture(after)).getbbox() is None


@needs_desktop
def test_keyboard_and_mouse(run, lease):
    desktop, _ = lease("calc/sum")

    def act(**arguments):
        run(desktop.perform("desktop", arguments))

    def at(name):
        x0, y0, x1, y1 = next(e["box"] for e in run(desktop.elements()) if e["name"] == name)
        return [round((x0 + x1) / 2 * 1000 / 1280), round((y0 + y1) / 2 * 1000 / 800)]

    text = "aab Zß€ {1}"
    act(action="left_click", coordinate=at("E3"))
    act(action="type", text=f"{text}\n")
    act(action="mouse_move", coordinate=at("B2"))
    act(action="left_click_drag", coordinate=at("C4"))
    state = run(desktop.view()).state
    assert state["document"]["sheets"][0]["cells"]["E3"] == text
    assert state["selection"] == "Stock.B2:C4"
    act(action="double_click", coordinate=at("A2"))  # edits the cell
    act(action="key", keys=["ctrl", "a"])
    act(action="type", text="new")
    act(action="key", keys=["Enter"])
    seen = picture(run(desktop.view()))
    act(action="scroll", pixels=-400, coordinate=at("B2"))
    view = run(desktop.view())
    assert view.state["document"]["sheets"][0]["cells"]["A2"] == "new"
    assert ImageChops.difference(seen, picture(view)).getbbox() is not None
    act(action="answer", text="42")
    assert run(desktop.view()).state["answer"] == "42"
    with pytest.raises(Unsupported, match="no key 'hyperspace'"):
        act(action="key", keys=["ctrl", "hyperspace"])


@needs_desktop
def test_tools_work_past_z_and_say_why_they_fail(run, lease):
    desktop, _ = lease("calc/sum")

    def call(name, **arguments):
        return run(desktop.tool(f"libreoffice_calc.{name}", arguments))

    assert call("set_cell_value", cell="AB3", value="=SUM(B2,B3)") == {
        "success": True, "result": None, "error_message": None,
    }  # fmt: skip
    state = run(desktop.view()).state
    units = [state["document"]["sheets"][0]["cells"][cell] for cell in ("B2", "B3")]
    assert state["document"]["sheets"][0]["cells"]["AB3"] == ["=", sum(units)]
    for failing, why in (
        (call("set_cell_value", cell="3", value="x"), "no cell"),
        (call("rename_sheet", old_name="Nowhere", new_name="x"), "there is no sheet 'Nowhere', but: Stock, Staff"),
        (call("export_to_pdf", file_path="../../escaped.pdf"), "does not lie in the folder"),
        (run(desktop.tool("libreoffice_writer.save", {})), None),
        (call("no_such_tool"), "does not work on the document that is open"),
    ):
        if why is not None:
            assert not failing["success"] and failing["result"] is None and why in failing["error_message"]
    assert call("save")["success"]
    archive = zipfile.ZipFile(desktop.folder / "home" / "Documents" / "report.ods")
    assert "of:=SUM([.B2];[.B3])" in archive.read("content.xml").decode()
    run(desktop.perform("desktop", {"action": "key", "keys": ["ctrl", "h"]}))
    assert run(desktop.view()).state["windows"][1:] == ["Find and Replace"]
    blocked = call("set_cell_value", cell="A1", value="x")
    assert not blocked["success"] and "Find and Replace" in blocked["error_message"]


@needs_desktop
@pytest.mark.parametrize("task", ["calc/fill", "writer/add-start", "impress/duplicate", "calc/absent-item"])
def test_tasks_are_right_by_hand_by_tools_and_not_by_less(run, store, task):
    found = run(trials(store, "libreoffice", task, 4))
    assert [str(trial) for trial in found if not trial.right] == []
    assert len(found) == (3 if task == "calc/absent-item" else 6)


# --- faults ----------------------------------------------------------------------------------------------------------
@needs_desktop
def test_a_killed_libreoffice_is_a_fault_and_the_next_episode_clean(run, store):
    (held,) = run(store.create(CreateSessions(suite="libreoffice", task="calc/units", seed=1)))
    session = store.get(held.session, held.token)
    first = run(store.reset(session))
    folder = session.screen.folder
    os.kill(pid_of(session.screen, "soffice.bin"), signal.SIGKILL)
    click = {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 500]}}
    with pytest.raises(Refusal, match="env_crash: office_lost"):
        run(store.step(session, StepRequest(episode=1, step=0, action=click)))
    verdict = run(store.evaluate(session))
    assert (verdict.outcome, verdict.score) == ("env_crash", None)
    assert gone(folder)
    again = run(store.reset(session))
    assert again.state_hash == first.state_hash and again.screenshot == first.screenshot
    run(store.close(session))


@needs_desktop
def test_a_desktop_that_does_not_answer_is_lost_with_all_that_it_started(run):
    async def play():
        async with Desktops(timeout_s=60) as source:
            instance = instantiate("libreoffice", "calc/units", 1)
            desktop = await source.lease(instance.page)
            await desktop.load(instance.initial)
            office, desktop.timeout_s = pid_of(desktop, "soffice.bin"), 0.5
            os.kill(office, signal.SIGSTOP)
            with pytest.raises(DesktopLost, match="silent: the desktop did not reply within 0.5 s"):
                await desktop.view()
            await source.release(desktop)
            return desktop.folder

    assert gone(run(play()))


@needs_desktop
def test_a_locked_file_is_a_fault_with_a_name(run, desktops):
    async def play(prepare):
        instance = instantiate("libreoffice", "calc/units", 1)
        desktop = await desktops.lease(instance.page)
        try:
            await prepare(desktop, instance)
            with pytest.raises(DesktopLost) as lost:
                await desktop.load(instance.initial)
            return str(lost.value)
        finally:
            await desktops.release(desktop)

    async def locked(desktop, instance):
        owner = ",somebody,elsewhere,01.01.2024 00:00,file:///elsewhere;"
        (desktop.folder / "home" / "Documents" / ".~lock.report.ods#").write_text(owner)

    assert run(play(locked)).startswith("locked: report.ods is locked")


@needs_desktop
def test_a_pipe_that_is_taken_is_a_fault_with_a_name(run):
    async def play():
        desktop = Desktop(SCREENS["calc"], 60)
        name = f"/tmp/OSL_PIPE_{os.getuid()}_{desktop.folder.name.replace('.', '_')}"
        with socket.socket(socket.AF_UNIX) as taken:
            taken.bind(name)
            taken.listen()
            try:
                with pytest.raises(DesktopLost, match="not_started: the pipe .* is taken"):
                    await desktop.open()
            finally:
                os.unlink(name)
                await desktop.close()
        return desktop.folder

    assert gone(run(play()))


CHILD = """
import asyncio, sys
from env_servers.desktop.room import Desktops
from env_servers.suites.libreoffice.case import SCREENS

async def main():
    async with Desktops() as source:
        desktop = await source.lease(SCREENS["calc"])
        print(desktop.folder, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@needs_desktop
def test_nothing_outlives_a_server_that_is_killed(run):
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True)
    folder = Path(child.stdout.readline().strip())
    assert len(processes(folder)) >= 3  # host, X server, LibreOffice at least
    display = (folder / "display").read_text().strip().removeprefix(":")
    child.kill()
    child.wait()
    child.stdout.close()
    assert gone(folder)
    assert not Path(f"/tmp/.X{display}-lock").exists()


@needs_desktop
def test_what_a_killed_host_leaves_is_removed_at_the_next_start(tmp_path):
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    folder = Path(f"/tmp/{PREFIX}{dead.stdout.strip()}.1.1-left")
    folder.mkdir()
    (folder / "display").write_text(":98765")
    assert folder in reap()
    assert not folder.exists()


@needs_desktop
def test_a_killed_host_takes_its_programs_with_it(run, desktops):
    sockets = []

    async def play():
        desktop = await desktops.lease(SCREENS["writer"])
        sockets.extend(map(Path, (desktop.folder / "sockets").read_text().splitlines()))
        assert len(sockets) == 2 and all(path.exists() for path in sockets)
        os.kill(desktop.pid, signal.SIGKILL)
        with pytest.raises(DesktopLost, match="host_lost"):
            await desktop.view()
        await desktops.release(desktop)
        return desktop.folder

    assert gone(run(play()))
    assert not any(path.exists() for path in sockets)


@needs_desktop
def test_requests_to_one_desktop_do_not_mix(run, lease):
    desktop, _ = lease("calc/sum")

    async def both():
        return await asyncio.gather(desktop.view(), desktop.elements(), desktop.view())

    first, elements, second = run(both())
    assert first.state == second.state and any(one["name"] == "Name Box" for one in elements)
    assert base64.b64decode(first.png_base64)[:4] == b"\x89PNG"


@needs_desktop
def test_servers_that_start_and_are_killed_leave_the_desktops_of_others_alone(run, lease):
    desktop, _ = lease("calc/sum")
    before = run(desktop.view())
    for _ in range(2):  # the second one's start clears up after the first
        child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True)
        try:
            folder = Path(child.stdout.readline().strip())
            assert (folder / "display").read_text() != (desktop.folder / "display").read_text()
            assert folder not in reap() and desktop.folder not in reap() and desktop.pid not in orphans.reap()
        finally:
            child.kill()
            child.wait()
            child.stdout.close()
    assert gone(folder)
    after = run(desktop.view())
    assert after.state == before.state and after.png == before.png


@needs_desktop
def test_a_host_that_cannot_go_on_says_why(run):
    async def play():
        desktop = Desktop(SCREENS["calc"], 60)
        (desktop.folder / "home").write_text("no folder")
        try:
            with pytest.raises(DesktopLost, match="not_started: (NotADirectoryError|FileExistsError)"):
                await desktop.open()
        finally:
            await desktop.close()
        ended = Desktop(SCREENS["calc"], 60)
        try:
            await ended.open()
            os.kill(ended.pid, signal.SIGKILL)
            with pytest.raises(DesktopLost, match=r"host_lost: the process .* \(exit code -9\)"):
                await ended.view()
        finally:
            await ended.close()
        return ended.folder

    assert gone(run(play()))


@pytest.fixture
def small_disk(tmp_path, monkeypatch):
    """A disk of 96 MB where desktops are put."""
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m", "small", str(tmp_path)], capture_output=True
    ).returncode:
        pytest.skip("a small disk can be made by root alone")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@needs_desktop
def test_a_full_disk_is_a_fault_with_a_name_and_the_next_episode_clean(run, small_disk):
    async def play():
        instance = instantiate("libreoffice", "calc/units", 1)
        async with Desktops(timeout_s=60) as source:
            desktop = await source.lease(instance.page)
            await desktop.load(instance.initial)
            first = await desktop.view()
            with (small_disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
                while True:
                    filler.write(bytes(2**16))
            with pytest.raises(DesktopLost, match="disk_full: .* bytes are free"):
                await desktop.tool("libreoffice_calc.save", {})
            await source.release(desktop)
            (small_disk / "filler").unlink()
            again = await source.lease(instance.page)
            await again.load(instance.initial)
            assert again is not desktop and (await again.view()).state == first.state
            await source.release(again)
            return desktop.folder

    assert gone(run(play()))


@needs_desktop
def test_a_dialog_that_blocks_is_a_fault_and_the_next_episode_clean(run, desktops, lease):
    """LibreOffice asks whether to repair a file that is cut off."""

    async def play():
        instance = instantiate("libreoffice", "calc/units", 1)
        desktop = await desktops.lease(instance.page)
        desktop.timeout_s = 4.0
        whole = base64.b64decode(instance.initial["data"])
        cut = base64.b64encode(whole[: len(whole) // 2]).decode()
        with pytest.raises(DesktopLost, match="silent: the desktop did not reply within 4 s"):
            await desktop.load({**instance.initial, "data": cut})
        await desktops.release(desktop)
        return desktop.folder

    assert gone(run(play()))
    desktop, instance = lease("calc/units")
    assert run(desktop.view()).state["document"] == instance.case.before


@needs_desktop
def test_a_policy_is_evaluated_by_the_command_of_every_suite(tmp_path):
    """gui-tiny's prompt holds 208 ids and the screen has 1,000 tokens: its form limits the pixels that it is shown."""
    policy = Path(__file__).parents[2] / "experiments" / "base_policy"
    found = evaluate(EvalOptions(str(policy), suite="libreoffice", episodes=1, chance=False, keep=True, out=tmp_path))
    assert found["policy"]["all"]["all"].episodes == 1 and found["policy"]["all"]["all"].faults == 0
    (episode,) = read_trajectories(tmp_path)
    grids = {grid for turn in episode.turns for grid in turn.image_grids}
    assert episode.screen_size == (1280, 800) and grids == {(1, 14, 22)}
    assert record_sample(TurnRecord(episode, episode.turns[0], (episode.turns[0].screenshot,))).images[0].tokens == 77
