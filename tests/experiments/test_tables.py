"""Every table, the whole path with next to nothing: arms, columns, differences, pages; stages are shared."""

import json
import math

import pytest

from experiments import pages, table, tables
from experiments.mopd import online as mopd_online
from experiments.toolcua import online as toolcua_online
from gui_rl.errors import UserError
from gui_rl.learn.teachers import Teaching
from gui_rl.learn.toolcua import PathConfig
from gui_rl.scale import aot
from gui_rl.scale.compile import plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def results(chromium, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tables.main(tables.Config(smoke=True))
    root = folder / "runs" / "lab-smoke"
    return {name: json.loads((root / f"{one.file}.json").read_text()) for name, one in tables.tables().items()}


@pytest.mark.smoke
def test_every_arm_has_every_column(results):
    for name, one in tables.tables().items():
        cells = results[name]["cells"]
        assert set(cells) == set(one.arms), name
        for arm, row in cells.items():
            assert set(row) == set(one.columns), (name, arm)
            assert all(math.isfinite(cell["mean"]) for cell in row.values()), (name, arm)
        assert [(d["arm"], d["against"]) for d in results[name]["differences"]] == list(map(tuple, one.differences))


@pytest.mark.smoke
def test_tables_share_stages(results):
    owners: dict[str, int] = {}
    for result in results.values():
        for stage in result["manifest"]["stages"]:
            owners[stage] = owners.get(stage, 0) + 1
    shared = {stage.partition("-")[0] for stage, count in owners.items() if count > 1}
    assert {"data", "sft"} <= shared


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("module", "settings"),
    [(toolcua_online, {"path": PathConfig(tool_weight=0.8)}), (mopd_online, {"teaching": Teaching(threshold=0.25)})],
)
def test_a_point_of_a_sweep_takes_the_stages_of_the_tables(results, folder, monkeypatch, module, settings):
    """But for the last training, whose settings no table has, and its evaluation, all is there."""
    monkeypatch.chdir(folder)
    before = {path.name for path in (folder / "runs" / "lab-smoke").iterdir()}
    path = module.main(module.Config(smoke=True, **settings))
    assert 0 <= json.loads(path.read_text())["success"] <= 1
    new = {path.name.partition("-")[0] for path in (folder / "runs" / "lab-smoke").iterdir() if path.name not in before}
    assert new == {"rl", "records"}


@pytest.mark.smoke
def test_pages_show_ours_and_the_paper_s_apart(results, tmp_path):
    for name, result in results.items():
        (tmp_path / f"{name.replace('/', '-')}.json").write_text(json.dumps(result))
    written = pages.write(tmp_path, tmp_path / "docs")
    assert len(written) == len(results)
    for name, result in results.items():
        text = (tmp_path / "docs" / f"{name.replace('/', '-')}.md").read_text()
        assert all(f"| {arm} |" in text for arm in result["cells"])
        if result["paper"]:
            assert text.index("## Ours") < text.index("## As published")


@pytest.mark.parametrize("name", sorted(tables.tables()))
def test_published_settings_make_sense(name):
    """What `--scale paper` compiles is well formed; compiling itself is not done here."""
    one = tables.tables()[name]
    assert one.paper or one.published or name.startswith("open/")
    if one.published is not None:
        assert one.published.settings and one.published.ours
        for options in one.published.compiles:
            plan(options)


def test_paper_scale_shows_the_settings_and_says_what_is_missing(capsys, monkeypatch):
    one = tables.tables()["owl/figure8b"]
    monkeypatch.setattr(aot.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="libtpu"):
        one.main(table.Config(scale="paper"))
    shown = capsys.readouterr().out
    assert '"phases": "curriculum"' in shown and "ours, not stated in the paper: group" in shown


@pytest.mark.smoke
def test_a_smoke_result_is_not_kept_with_the_project(results):
    assert not list(table.RESULTS.glob("*.json")) or all(
        json.loads(path.read_text())["manifest"]["sizes"]["sft_steps"] > 2 for path in table.RESULTS.glob("*.json")
    )
