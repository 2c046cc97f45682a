"""Pre-training and SFT: one trainer, data made here or named; a second call goes on or finds that all is done."""

import dataclasses

import pytest

from experiments import pretrain, sft
from gui_rl.errors import UserError
from gui_rl.learn.sft import SFTConfig
from gui_rl.report.metrics import read_metrics
from gui_rl.rollout import policy

pytestmark = pytest.mark.smoke
SMALL = sft.Config(episodes=2, longest=1, train=SFTConfig(steps=2, turns=6, warmup=1))


@pytest.fixture(scope="module")
def run(chromium, tmp_path_factory):
    folder = tmp_path_factory.mktemp("supervised")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("WANDB_MODE", "disabled")
        sft.main(SMALL)
        (made,) = (folder / "runs/sft/stages").glob("sft-*")
        before = (made / "done.json").stat().st_mtime_ns
        sft.main(SMALL)
        again = (made / "done.json").stat().st_mtime_ns
        data = next((folder / "runs/sft/stages").glob("data-*")) / "data"
        start = folder / "runs/sft/policy"
        pretrain.main(
            pretrain.Config(
                start=start, data={"mine": data}, weights={"mine": 2.0}, train=dataclasses.replace(SMALL.train)
            )
        )
        with pytest.raises(UserError, match="holds other settings"):
            sft.main(dataclasses.replace(SMALL, seed=1))
        with pytest.raises(UserError, match="holds no dataset"):
            sft.main(dataclasses.replace(SMALL, name="none", data={"mine": folder / "nowhere"}))
        with pytest.raises(UserError, match="no dataset is called other"):
            sft.main(dataclasses.replace(SMALL, name="odd", data={"mine": data}, weights={"other": 1.0}))
    return folder / "runs", before == again


def test_a_policy_comes_out_in_the_form_of_its_data(run):
    runs, unchanged = run
    for name in ("sft", "pretrain"):
        loaded = policy.load(runs / name / "policy")
        assert loaded.context.max_prompt_tokens == 320
        assert [record["step"] for record in read_metrics(runs / name)] == [1, 2]
    assert unchanged
