"""Faults while rollouts run: every episode ends with a typed outcome, none is scored for it, none clicks twice.

The scenes of the benchmark, with few rollouts and short times; how fast the rate comes back is measured there.
"""

import asyncio

import pytest

from benchmarks.env_faults import FAULTS, observe
from benchmarks.env_rollouts import TASKS, Host, leftovers
from env_servers.server import ServerConfig

EXPECTED = {  # outcomes that must be among those of the rollouts that the fault hit
    "Chromium killed": {"env_crash"},
    "server killed (-9)": {"env_crash"},
    "network cut": {"success"},
}


@pytest.fixture(scope="module")
def host(chromium):
    config = ServerConfig(max_sessions=16, page_timeout_s=3, drain_s=10)
    with Host(config, "benchmarks.env_hanging") as host:
        yield host
        tree = host.tree()
    assert leftovers(tree) == []


@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "none"])
def test_a_fault_is_an_outcome_of_its_own_and_the_others_go_on(host, fault):
    times = {"calm_s": 0.5, "after_s": 60, "cut_s": 2, "back_share": 0.05}
    report = asyncio.run(observe(host, fault, 4, tasks=TASKS[:3], **times))
    assert report.wrong == []
    assert report.back_s is not None, "no steps came after the fault"
    assert report.outcomes["success"] > 0 and EXPECTED.get(fault, set()) <= set(report.outcomes)
