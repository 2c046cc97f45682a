"""Composite tools: signatures that follow from the members', execution as one step, and refusals."""

import asyncio

import pytest

from env_servers.errors import UserError
from env_servers.protocol.messages import Composite, CompositeCall, CreateSessions
from env_servers.suites import instantiate
from env_servers.suites.composite import carry_out, spec_of

TOOLS = instantiate("virtual", "files/star", 3).tools


def composite(*calls, name="files.both"):
    members = [CompositeCall(tool=f"files.{tool}", arguments=arguments) for tool, arguments in calls]
    return Composite(name=name, description="Both.", calls=members)


STAR, COPY = ("star_file", {"name": "name_1"}), ("copy_file", {"name": "name_2", "folder": "folder"})


def test_the_signature_follows_from_the_members():
    spec = spec_of(composite(STAR, COPY), TOOLS)
    own = {tool.name: tool.parameters["properties"] for tool in TOOLS}
    assert spec.parameters["properties"] == {
        "name_1": own["files.star_file"]["name"],
        "name_2": own["files.copy_file"]["name"],
        "folder": own["files.copy_file"]["folder"],
    }
    assert spec.parameters["required"] == ["name_1", "name_2", "folder"]
    delete = ("delete_file", {"name": "name_1", "folder": "where"})
    optional = spec_of(composite(STAR, delete), TOOLS)  # one parameter may fill two arguments of the same kind
    assert optional.parameters["required"] == ["name_1"] and "where" in optional.parameters["properties"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (composite(STAR, ("burn_file", {})), "no tool 'files.burn_file'"),
        (composite(STAR, ("copy_file", {"name": "n"})), "needs the argument 'folder'"),
        (composite(STAR, ("star_file", {"name": "n", "size": "m"})), "no argument 'size'"),
        (composite(STAR, COPY, name="files.star_file"), "has this name"),
        (composite(STAR, ("copy_file", {"name": "a", "folder": "name_1"})), "different kinds"),
    ],
)
def test_wrong_composites_are_refused_by_name(wrong, says):
    with pytest.raises(UserError, match=f"composite '{wrong.name}'.*{says}"):
        spec_of(wrong, TOOLS)


def test_members_run_in_order_up_to_the_first_failure():
    called = []

    async def tool(name, arguments):
        called.append((name, dict(arguments)))
        good = arguments.get("folder") != "none"
        return {"success": good, "result": None, "error_message": None if good else "no such folder"}

    def run(*calls, **arguments):
        called.clear()
        return asyncio.run(carry_out(composite(*calls), arguments, tool))

    done = run(STAR, COPY, name_1="a", name_2="b", folder="red")
    assert done == {"success": True, "result": None, "error_message": None}
    assert called == [("files.star_file", {"name": "a"}), ("files.copy_file", {"name": "b", "folder": "red"})]
    failed = run(COPY, STAR, name_1="a", name_2="b", folder="none")
    assert not failed["success"] and failed["error_message"] == "files.copy_file: no such folder"
    assert len(called) == 1


def test_a_composite_is_one_step_of_a_session(run, browser):
    from env_servers.leases import Refusal
    from env_servers.protocol.messages import StepRequest
    from env_servers.sessions import SessionStore

    instance = instantiate("virtual", "files/star", 3)
    name = instance.slots["star"]
    twice = composite(("star_file", {"name": "name_1"}), ("delete_file", {"name": "name_2"}))

    async def play():
        store = SessionStore(browser, 2)
        request = CreateSessions(task="files/star", seed=3, tools=[], composites=[twice])
        (lease,) = await store.create(request)
        assert [tool["function"]["name"] for tool in lease.tools] == ["files.both"]
        session = store.get(lease.session, lease.token)
        first = await store.reset(session)
        call = {"name": "files.both", "arguments": {"name_1": name, "name_2": name}}
        reply = await store.step(session, StepRequest(episode=1, step=0, action=call))
        short = {"name": "files.both", "arguments": {"name_1": name}}
        refused = await store.step(session, StepRequest(episode=1, step=1, action=short))
        state = session.episode.last_state
        await store.close(session)
        with pytest.raises(Refusal, match="same name"):
            await store.create(CreateSessions(task="files/star", seed=3, composites=[twice, twice]))
        with pytest.raises(Refusal, match="no tool"):
            wrong = composite(STAR, ("burn_file", {}))
            await store.create(CreateSessions(task="files/star", seed=3, composites=[wrong]))
        return first, reply, refused, state

    first, reply, refused, state = run(play())
    assert reply.tool_result["success"] and reply.observation.state_hash != first.state_hash
    assert refused.error == "missing_argument"
    assert name in instance.initial["root"] and name not in state["root"]
