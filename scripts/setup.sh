#!/usr/bin/env bash
# Prepares this checkout: scripts/setup.sh EXTRAS (for example `env` or `env,dev`).
#
# 1. a Chromium that starts and the font DejaVu Sans (installed with apt where that is allowed)
# 2. a virtual environment in .venv made with Python >= 3.11
# 3. this project and its pinned packages in it
# 4. the front-end packages of the suite `apps`, with npm (asked for by `dev`, else where npm is there)
# 5. only for the extra `desktop`: LibreOffice with its Python bindings, an X server, a window manager and the programs
#    beside LibreOffice (file manager, terminal, text editor), with apt
#
# It may be run any number of times; with nothing to do it takes about a second. Exit code 2 means that
# something is missing that only the user can install; the last line says what.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

extras=${1:-env}
font="DejaVu Sans"
stamp=.venv/.gui-rl-setup

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 2; }

# --- Chromium and the font ----------------------------------------------------------------------------

starts() { command -v "$1" >/dev/null 2>&1 && "$1" --version >/dev/null 2>&1; }

find_chromium() { # prints the first browser that starts
    local name
    if [[ -n ${GUI_RL_CHROMIUM:-} ]]; then
        starts "$GUI_RL_CHROMIUM" || die "GUI_RL_CHROMIUM names '$GUI_RL_CHROMIUM', which is not a browser that starts; correct or unset it"
        echo "$GUI_RL_CHROMIUM"
        return
    fi
    for name in chromium chromium-browser google-chrome; do
        if starts "$name"; then command -v "$name"; return; fi
    done
    return 1
}

has_font() {
    if command -v fc-match >/dev/null 2>&1; then
        [[ $(fc-match -f '%{family}' "$font") == *"$font"* ]]
    else
        find /usr/share/fonts /usr/local/share/fonts "${HOME:-}/.fonts" "${HOME:-}/.local/share/fonts" \
            -name DejaVuSans.ttf 2>/dev/null | grep -q .
    fi
}

apt_install() { # installs packages where this user may; fails otherwise
    local elevate=()
    command -v apt-get >/dev/null 2>&1 || return 1
    if [[ $(id -u) -ne 0 ]]; then
        command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null || return 1
        elevate=(sudo -n)
    fi
    say "installing $* with apt-get"
    "${elevate[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2 || return 1
    "${elevate[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >&2
}

if ! browser=$(find_chromium); then
    [[ -z ${GUI_RL_CHROMIUM:-} ]] || exit 2 # find_chromium has said why
    apt_install chromium fonts-dejavu-core || say "apt-get could not install Chromium here"
    browser=$(find_chromium) || die "no Chromium was found. Install it (Debian: 'apt-get install chromium fonts-dejavu-core'; where the package is only a snap, install Google Chrome), or name one with GUI_RL_CHROMIUM=/path/to/chromium"
fi
if ! has_font; then
    apt_install fonts-dejavu-core || say "apt-get could not install the font here"
    has_font || die "the font '$font' is missing, which the screens are drawn with. Install it (Debian, Ubuntu: 'apt-get install fonts-dejavu-core')"
fi

# --- the suites `libreoffice`, `office` -----------------------------------------------------------------

desktop_packages="libreoffice-calc libreoffice-writer libreoffice-impress libreoffice-script-provider-python \
python3-uno python3-xlib xvfb openbox fonts-dejavu-core pcmanfm xterm l3afpad bubblewrap"

has_desktop() {
    local name
    for name in soffice Xvfb openbox setpriv pcmanfm xterm l3afpad bwrap; do
        command -v "$name" >/dev/null 2>&1 || return 1
    done
    "${GUI_RL_DESKTOP_PYTHON:-/usr/bin/python3}" -c 'import uno, Xlib' 2>/dev/null
}

if [[ ",$extras," == *,desktop,* ]] && ! has_desktop; then
    # shellcheck disable=SC2086 # one word a package
    apt_install $desktop_packages || say "apt-get could not install LibreOffice here"
    has_desktop || die "the suites 'libreoffice' and 'office' need packages that are missing. Install them (Debian: 'apt-get install --no-install-recommends $desktop_packages')"
fi

# --- virtual environment and packages -----------------------------------------------------------------

find_python() { # prints the first Python >= 3.11 that can make a virtual environment
    local name seen=""
    for name in python3.11 python3.12 python3.13 python3; do
        command -v "$name" >/dev/null 2>&1 || continue
        "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || continue
        seen=$name
        if "$name" -c 'import ensurepip, venv' 2>/dev/null; then echo "$name"; return; fi
    done
    if [[ -n $seen ]]; then
        apt_install "python3-venv" >&2 || die "$seen cannot make virtual environments. Install it (Debian, Ubuntu: 'apt-get install python3-venv')"
        "$seen" -c 'import ensurepip, venv' 2>/dev/null || die "$seen still cannot make virtual environments; install its venv package, for example '$seen-venv'"
        echo "$seen"
        return
    fi
    die "Python 3.11 or newer was not found. Install it (Debian 12, Ubuntu 24.04 or newer: 'apt-get install python3 python3-venv')"
}

front_end() { # the apps' front-end packages; a check of the lock file where they are there
    if ! command -v npm >/dev/null 2>&1; then
        if [[ ",$extras,${installed_extras:-}," == *,dev,* ]]; then
            apt_install nodejs npm || die "npm was not found, which fetches the front-end packages of the suite 'apps'. Install it (Debian, Ubuntu: 'apt-get install nodejs npm')"
        else
            say "npm was not found: all but the suite 'apps' will work"
            return
        fi
    fi
    .venv/bin/python -m env_servers.suites.apps.vendor || exit 2
}

# The stamp holds what was installed: the place, the pins and the extras. It is written last, so that an
# interrupted installation is done again.
wanted=$( { pwd; cat setup.py constraints.txt; } | sha256sum | cut -d' ' -f1)
if [[ -r $stamp ]] && .venv/bin/python -c '' 2>/dev/null; then
    read -r installed installed_extras <"$stamp" || true
    missing=""
    for extra in ${extras//,/ }; do
        [[ ",${installed_extras:-}," == *",$extra,"* ]] || missing=$extra
    done
    if [[ ${installed:-} == "$wanted" ]]; then
        [[ -n $missing ]] || { front_end; exit 0; }
        extras=$(tr ',' '\n' <<<"$installed_extras,$extras" | sort -u | paste -sd,) # keep what was there
    fi
fi

if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    say "making the virtual environment .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
fi
rm -f "$stamp"
say "installing the pinned packages [$extras]; the first time takes some minutes"
install() {
    .venv/bin/python -m pip install --disable-pip-version-check --constraint constraints.txt "$@" |
        sed -un 's/^ *Downloading \(.*\)$/setup:   \1/p' >&2
}
install setuptools
install --no-build-isolation --editable ".[$extras]"
front_end
echo "$wanted $extras" >"$stamp"
say "ready: $(.venv/bin/python --version), $browser"
