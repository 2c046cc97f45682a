"""The life of a server process: its port, its signals, its logs, and what is left of it."""

import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from wire import Held, good, refused

from env_servers.errors import UserError
from env_servers.orphans import browsers_of, labelled, reap, started
from env_servers.server import ServerConfig, running_server, serve


def in_flight(http):
    families = text_string_to_metric_families(http.get("/metrics").text)
    return next(f.samples[0].value for f in families if f.name == "gui_rl_env_steps_in_flight")


def test_a_port_in_use_is_one_clear_line(chromium):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"cannot listen on 127.0.0.1:{port} .*--port"):
            serve(ServerConfig(port=port))
        command = [sys.executable, "-m", "env_servers.server", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        with pytest.raises(UserError, match="cannot listen"), running_server(ServerConfig(port=port)):
            pass


@pytest.mark.parametrize("workers", [1, 2])
def test_a_browser_that_does_not_start_is_the_reason_given(monkeypatch, workers):
    monkeypatch.setenv("GUI_RL_CHROMIUM", "/bin/false")
    with pytest.raises(UserError, match="/bin/false does not start"):
        with running_server(ServerConfig(port=0, workers=workers)):
            pass


def test_an_unknown_option_is_an_error():
    command = [sys.executable, "-m", "env_servers.server", "--colour", "red"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "colour" in done.stdout + done.stderr


def wait_until_gone(pids):
    deadline = time.monotonic() + 30
    while alive := [pid for pid in pids if started(pid)]:
        assert time.monotonic() < deadline, f"still there: {alive}"
        time.sleep(0.05)


def test_a_made_up_token_is_printed_and_sigterm_lets_the_episode_end(chromium):
    command = [sys.executable, "-m", "env_servers.server", "--port", "0"]
    environment = {key: value for key, value in os.environ.items() if key != "GUI_RL_ENV_TOKEN"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as child:
        url = child.stdout.readline().split()[-1]
        token = child.stdout.readline().split()[1]
        assert url.startswith("http://127.0.0.1:")
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
            body = {"task": "shop/checkout", "seed": 1}
            (lease,) = good(http.post("/v1/sessions", json=body, headers={"Authorization": f"Bearer {token}"}))
            held = Held(http, lease)
            held.reset()
            (idle,) = good(http.post("/v1/sessions", json=body, headers={"Authorization": f"Bearer {token}"}))
            browsers = browsers_of(child.pid)
            assert len(browsers) == 1
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                slow = pool.submit(held.step, held.gui("wait", time=1))
                while not in_flight(http):
                    assert not slow.done(), "the step was over before the signal"
                child.send_signal(signal.SIGTERM)
                assert good(slow.result())["observation"]["step"] == 1
            refused(http.get("/readyz"), 503, "draining")
            refused(http.post("/v1/sessions", json=body, headers={"Authorization": f"Bearer {token}"}), 503, "draining")
            assert refused(Held(http, idle).post("reset"), 500, "reset_failed").outcome == "reset_failed"
            arguments = {"action": "terminate", "status": "failure"}
            assert good(held.step({"name": "browser_use", "arguments": arguments}))["terminated"]
            assert good(held.post("evaluate"))["outcome"] == "fail"
            assert good(held.post("evaluate"))["outcome"] == "fail"  # its owner may still ask
            assert held.close().status_code == 204
        assert child.wait(20) in (0, -signal.SIGTERM)  # the episode is over: the rest of the grace is not waited for
        wait_until_gone(browsers)


def test_an_episode_that_does_not_end_is_cut_off_after_the_grace(chromium):
    command = [sys.executable, "-m", "env_servers.server", "--port", "0", "--open", "--drain-s", "0.5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        url = child.stdout.readline().split()[-1]
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
            held = Held(http, good(http.post("/v1/sessions", json={"task": "shop/checkout", "seed": 1}))[0])
            held.reset()
            child.send_signal(signal.SIGTERM)
            assert child.wait(20) in (0, -signal.SIGTERM)
        events = [json.loads(line) for line in child.stderr.read().splitlines()]
        assert next(event for event in events if event["event"] == "drained")["cut_off"] == 1


def test_logs_are_json_lines_without_tokens_and_typed_text(chromium):
    command = [sys.executable, "-m", "env_servers.server", "--port", "0", "--log-level", "debug"]
    secret = "correct horse battery"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        url, token = child.stdout.readline().split()[-1], child.stdout.readline().split()[1]
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
            body = {"task": "shop/checkout", "seed": 1}
            (lease,) = good(http.post("/v1/sessions", json=body, headers={"Authorization": f"Bearer {token}"}))
            held = Held(http, lease)
            held.reset()
            good(held.step(held.gui("type", text=secret), response={"text": secret}))
            good(held.step({"name": secret, "arguments": {"text": secret}}))
            good(held.step(None, parse_error="no_call", response={"text": secret}))
            held.post("evaluate")
        child.send_signal(signal.SIGINT)
        child.wait(20)
        text = child.stderr.read()
    assert secret not in text and token not in text and lease["token"] not in text
    lines = [json.loads(line) for line in text.splitlines()]
    steps = [line for line in lines if line["event"] == "step"]
    assert [(line["step"], line["action"], line["outcome"]) for line in steps] == [
        (0, "browser_use.type", "running"),
        (1, None, "unknown_tool"),
        (2, None, "no_call"),
    ]
    assert all(line["session"] == lease["session"] and line["episode"] == 1 and line["ms"] > 0 for line in steps)
    (verdict,) = [line for line in lines if line["event"] == "verdict"]
    assert (verdict["outcome"], verdict["steps"], verdict["level"]) == ("policy_timeout", 3, "info")


def test_a_forked_copy_of_a_browser_is_not_another_browser():
    """A process is its parent's copy, command line and all, until it executes a program of its own."""
    program = "import os, sys, time\nif child := os.fork(): print(child, flush=True)\ntime.sleep(600)"
    label = f"--gui-rl-owner={os.getpid()}.1.1"
    with subprocess.Popen([sys.executable, "-c", program, label], stdout=subprocess.PIPE, text=True) as parent:
        copy = int(parent.stdout.readline())
        try:
            assert [one.pid for one in labelled() if one.label == label.partition("=")[2]] == [parent.pid]
        finally:
            os.kill(copy, signal.SIGKILL)
            parent.kill()


def test_nothing_is_left_of_a_killed_server(chromium):
    with running_server() as server:
        (browser,) = [process for process in labelled() if process.owner == server.pid]
        os.kill(server.pid, signal.SIGKILL)
        while not browser.orphaned:
            time.sleep(0.01)
        reap()
        wait_until_gone([browser.pid])


def test_a_server_ends_with_the_process_that_started_it(chromium, tmp_path):
    program = "import time; from env_servers.server import running_server\n" + (
        "with running_server() as server: print(server.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        browsers = browsers_of(pid)
        parent.kill()
        wait_until_gone([pid, *browsers])
