"""The soak and the comparison of two servers, in small: nothing is left over, and equal seeds look equal."""

from benchmarks import env_determinism, env_soak


def test_a_short_soak_leaves_nothing(chromium):
    soaked = env_soak.measure(env_soak.Config(episodes=20, parallel=4, seeds=1, save=False))
    assert soaked.wrong == [] and soaked.episodes == 20
    assert 0 < soaked.late < 1.5 * soaked.early


def test_two_fresh_servers_show_the_same(chromium):
    virtual = [("virtual", task, seed) for task in ("shop/set", "files/move", "orders/order") for seed in (0, 1)]
    work = [*virtual, ("miniwob", "miniwob/click-test", 0), ("infeasible", "orders/show", 0)]
    assert env_determinism.compare(work, parallel=4, moves=2) == {}
