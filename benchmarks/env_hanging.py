"""An environment server with one suite more: `hanging`, whose page loops for ever once it is clicked.

It is the real server; only the world is made to fail. Run: python -m benchmarks.env_hanging --port 0
"""

from __future__ import annotations

from collections.abc import Mapping

from env_servers.server import main
from env_servers.suites import SUITES
from env_servers.suites.suite import PageKind, State, Task, TaskInstance

_HTML = """<!doctype html><body style="margin: 0; height: 100vh; background: #dddddd"><script>
window.app = { load() {}, state() { return {} }, elements() { return [] } };
addEventListener("click", () => { for (;;) ; });
</script></body>"""
PAGE = PageKind("hanging", _HTML, 160, 128)
TASK = Task("hanging/click", "web", "Click anywhere.", (), -1, True, 4, scripted=False)


class Instance(TaskInstance):
    """Nothing to reach: the first click never ends."""

    def succeeded(self, state: State, declared: str | None, complete: bool) -> bool:
        return False


class Hanging:
    """The suite."""

    def tasks(self) -> Mapping[str, Task]:
        return {TASK.id: TASK}

    def instantiate(self, task: Task, seed: int) -> TaskInstance:
        return Instance(task, seed, PAGE, "Click anywhere.", {}, (), ())


SUITES["hanging"] = Hanging()

if __name__ == "__main__":
    main()
