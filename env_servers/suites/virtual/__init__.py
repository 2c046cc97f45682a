"""The virtual suite: three web-rendered apps with exact predicates, one for each device family."""

from __future__ import annotations

from .app import App, Task, TaskInstance, generator, make_instance
from .files.app import APP as FILES
from .orders.app import APP as ORDERS
from .shop.app import APP as SHOP

registry: dict[str, App] = {app.name: app for app in (ORDERS, FILES, SHOP)}


def tasks() -> dict[str, Task]:
    """All tasks of the suite by their id ("files/move+delete")."""
    return {task.id: task for app in registry.values() for task in app.tasks()}


def instantiate(task: Task, seed: int) -> TaskInstance:
    """The instance of `task` that belongs to `seed`; the same pair gives the same instance everywhere."""
    return make_instance(registry[task.app], task, seed)


def vocabulary_samples(n: int, seed: int) -> list[str]:
    """`n` sentences as the apps write them: instructions, conclusions, questions, answers; to train a tokenizer on."""
    rng = generator("vocabulary", seed)
    apps, known = list(registry.values()), list(tasks().values())
    conclusions = [sentence for app in apps for sentence in app.hand.sentences(app.names)]
    samples: list[str] = []
    while len(samples) < n:
        number = rng.randrange(100_000)
        instance = instantiate(rng.choice(known), number)
        app = rng.choice(apps)
        facts = app.facts(app.sample_state(number))
        texts = [instance.instruction, f"Use the tool. {rng.choice(instance.subtask_texts)}"]
        texts += rng.sample(conclusions, 4) + [part for fact in rng.sample(facts, min(2, len(facts))) for part in fact]
        samples += texts
    return samples[:n]
