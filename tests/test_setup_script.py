"""scripts/setup.sh says in one line what is missing, and exits 2; it is tried in a folder with a PATH of its own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = "bash cat cut dirname env find grep id paste rm sed sha256sum sort tr true".split()


@pytest.fixture
def checkout(tmp_path):
    """A small checkout and run(**environment): setup.sh there, seeing only TOOLS and what the test adds to bin/."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "scripts" / "setup.sh", tmp_path / "scripts" / "setup.sh")
    for name in ("setup.py", "constraints.txt"):
        (tmp_path / name).write_text("")
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    return tmp_path


def run(checkout: Path, extras: str = "env", **environment: str) -> tuple[int, str]:
    environment = {"PATH": str(checkout / "bin"), "HOME": str(checkout)} | environment
    done = subprocess.run(
        [checkout / "scripts" / "setup.sh", extras], env=environment, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr


def program(checkout: Path, name: str, body: str = "exit 0") -> Path:
    path = checkout / "bin" / name
    path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
    path.chmod(0o755)
    return path


def installed(checkout: Path, extras: str = "env") -> None:
    """As if an installation had ended well."""
    wanted = subprocess.run(
        "{ pwd; cat setup.py constraints.txt; } | sha256sum | cut -d' ' -f1",
        shell=True,
        cwd=checkout,
        capture_output=True,
        text=True,
    )
    (checkout / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
    program(checkout, "../.venv/bin/python", 'echo "$*" >>"$HOME/calls"')
    (checkout / ".venv" / ".gui-rl-setup").write_text(f"{wanted.stdout.strip()} {extras}\n")


FONT = 'echo "DejaVu Sans"'


def test_no_chromium_and_no_way_to_install_one(checkout):
    code, said = run(checkout)
    assert code == 2
    last = said.splitlines()[-1]
    assert "no Chromium" in last and "GUI_RL_CHROMIUM" in last and "apt-get install chromium" in last


def test_a_named_chromium_that_does_not_start(checkout):
    program(checkout, "chromium")
    code, said = run(checkout, GUI_RL_CHROMIUM="/no/such/browser")
    assert code == 2 and len(said.splitlines()) == 1
    assert "/no/such/browser" in said


def test_libreoffice_is_asked_for_by_its_extra_alone(checkout):
    program(checkout, "chromium")
    program(checkout, "fc-match", FONT)
    installed(checkout, "env,desktop")
    assert run(checkout)[0] == 0
    code, said = run(checkout, "env,desktop")
    last = said.splitlines()[-1]
    assert code == 2 and "libreoffice-calc" in last and "python3-uno" in last and "apt-get install" in last
    for name in ("soffice", "Xvfb", "openbox", "setpriv", "pcmanfm", "xterm", "l3afpad", "bwrap"):
        program(checkout, name)
    python = program(checkout, "python-with-uno")
    assert run(checkout, "env,desktop", GUI_RL_DESKTOP_PYTHON=str(python))[0] == 0


@pytest.mark.parametrize("user", [0, 1000])
def test_apt_installs_the_browser_where_it_may(checkout, user):
    (checkout / "bin" / "id").unlink()
    program(checkout, "id", f"echo {user}")
    program(checkout, "sudo", 'shift; exec "$@"')  # without a password
    program(checkout, "apt-get", 'echo "$*" >>"$HOME/apt"; [[ $* != *install* ]] || ln -s true "$HOME/bin/chromium"')
    (checkout / "bin" / "ln").symlink_to(shutil.which("ln"))
    program(checkout, "fc-match", FONT)
    installed(checkout)
    code, said = run(checkout)
    assert code == 0, said
    assert "chromium fonts-dejavu-core" in (checkout / "apt").read_text()


def test_missing_font(checkout):
    program(checkout, "chromium")
    program(checkout, "fc-match", 'echo "Some Other Sans"')
    code, said = run(checkout)
    assert code == 2 and "DejaVu Sans" in said.splitlines()[-1] and "fonts-dejavu-core" in said


def test_missing_python(checkout):
    program(checkout, "chromium")
    program(checkout, "fc-match", FONT)
    code, said = run(checkout)
    assert code == 2 and "Python 3.11 or newer" in said.splitlines()[-1]


def test_old_python_does_not_count(checkout):
    program(checkout, "chromium")
    program(checkout, "fc-match", FONT)
    program(checkout, "python3", "[[ $2 != *version_info* ]]")
    code, said = run(checkout)
    assert code == 2 and "Python 3.11 or newer" in said.splitlines()[-1]


def test_python_without_venv(checkout):
    program(checkout, "chromium")
    program(checkout, "fc-match", FONT)
    program(checkout, "python3", "[[ $2 != *ensurepip* ]]")
    code, said = run(checkout)
    assert code == 2 and "python3-venv" in said.splitlines()[-1]


def test_nothing_is_installed_twice(checkout):
    browser = program(checkout, "my-browser")
    program(checkout, "fc-match", FONT)
    program(checkout, "npm")
    installed(checkout, "dev,env")
    code, said = run(checkout, GUI_RL_CHROMIUM=str(browser))
    assert (code, said) == (0, "")
    assert "install" not in (checkout / "calls").read_text()


def test_the_apps_packages_need_npm_and_nothing_else_does(checkout):
    program(checkout, "chromium")
    program(checkout, "fc-match", FONT)
    installed(checkout, "env")
    code, said = run(checkout)
    assert code == 0 and "all but the suite 'apps'" in said
    installed(checkout, "dev,env")
    code, said = run(checkout)
    assert code == 2 and "nodejs npm" in said.splitlines()[-1]
    program(checkout, "npm")
    assert run(checkout) == (0, "")
    assert "env_servers.suites.apps.vendor" in (checkout / "calls").read_text()


@pytest.mark.parametrize("change", ["pins", "extra", "moved"])
def test_a_change_installs_again(checkout, change):
    program(checkout, "chromium")
    program(checkout, "fc-match", FONT)
    program(checkout, "npm")
    installed(checkout, "dev" if change == "extra" else "env")
    if change == "pins":
        (checkout / "constraints.txt").write_text("jax==0\n")
    elif change == "moved":
        checkout = checkout.rename(checkout.with_name("elsewhere"))
        for tool in ("bin/chromium", "bin/fc-match", ".venv/bin/python"):
            assert os.access(checkout / tool, os.X_OK)
    code, said = run(checkout)
    assert code == 0, said
    wanted = ".[dev,env]" if change == "extra" else ".[env]"
    assert f"--editable {wanted}" in (checkout / "calls").read_text()
