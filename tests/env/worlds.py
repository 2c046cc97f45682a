"""An episode of a registered world, played in this process."""

from env_servers.adapters import Worlds
from env_servers.protocol.messages import CreateSessions, StepRequest
from env_servers.screens import Screens
from env_servers.sessions import SessionStore
from env_servers.suites.suite import WorldKind


async def play_world(suite, task, seed, actions):
    """(observations, errors, verdict)."""
    store = SessionStore(Screens({WorldKind: Worlds()}))
    (lease,) = await store.create(CreateSessions(suite=suite, task=task, seed=seed))
    session = store.get(lease.session, lease.token)
    seen, errors = [await store.reset(session)], []
    for number, action in enumerate(actions):
        reply = await store.step(session, StepRequest(episode=1, step=number, action=action))
        seen.append(reply.observation)
        errors.append(reply.error)
    verdict = await store.evaluate(session)
    assert await store.evaluate(session) == verdict
    await store.close(session)
    return seen, errors, verdict
