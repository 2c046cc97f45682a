"""A policy's folder: its weights, and the form of its prompts."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from small_policy import small_policy

from gui_rl.errors import UserError
from gui_rl.model import hf
from gui_rl.prompt.context import TINY_CONTEXT, ContextConfig
from gui_rl.rollout import policy as policies


@pytest.fixture(scope="module")
def policy():
    return small_policy(3)


def test_a_folder_names_its_vocabulary_and_context(policy, tmp_path):
    hf.save(tmp_path, policy.cfg, policy.params)
    assert policies.load(tmp_path).context == TINY_CONTEXT  # a gui-tiny, where nothing is said
    context = ContextConfig(history_turns=1, thinking=True)
    policies.write_form(tmp_path, "gui-tiny", context)
    loaded = policies.load(tmp_path)
    assert loaded.context == context and loaded.name == tmp_path.name
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, loaded.params, policy.params)))
    for document, says in (({"tokenizer": "gui-tiny"}, "context"), ({"tokenizer": "x", "context": {}, "y": 1}, "y"),
                           ({"tokenizer": "gui-tiny", "context": {"turns": 1}}, "turns"), ([], "need")):  # fmt: skip
        (tmp_path / "policy.json").write_text(json.dumps(document))
        with pytest.raises(UserError, match=says) as error:
            policies.load(tmp_path)
        assert str(tmp_path) in str(error.value)
    policies.write_form(tmp_path, "nowhere", context)
    with pytest.raises(UserError, match="nowhere"):
        policies.load(tmp_path)


def test_a_vocabulary_that_is_not_the_model_s_is_refused(policy, tmp_path):
    hf.save(tmp_path, dataclasses.replace(policy.cfg, image_token_id=5), policy.params)
    with pytest.raises(UserError, match="policy.json"):
        policies.load(tmp_path)
