# What scripts/test and scripts/demo share: progress lines, Debian's packages, the virtual environment. Sourced by bash.

begun=$SECONDS
umask 022 # ordinary users run what is installed, and work in clusters' folders: root's own umask may be stricter
trap 'exit 130' INT # also where a command takes Ctrl-C for a mere failure, which may be forgiven

say() {
    printf '\n[%4d s] %s\n' "$((SECONDS - begun))" "$*"
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

DEBIAN_PACKAGES=(
    slurm-wlm slurmdbd slurm-wlm-mysql-plugin slurm-wlm-basic-plugins munge mariadb-server
    lua5.1 lua-socket lua-posix python3 python3-venv
)

# What a test does without, where this Debian has it no more.
OPTIONAL_PACKAGES=()

# Say which of these packages are not installed.
not_installed() {
    local package
    for package; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || printf '%s\n' "$package"
    done
}

# Run a command while packages start no services, also where it is interrupted: else none would ever start here again.
without_services() (
    policy=${policy:-/usr/sbin/policy-rc.d}
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    "$@"
)

# Install what is missing. The packages' own services stay off: the clusters of scripts/ bring their own.
install_packages() {
    local missing wanted package
    mapfile -t missing < <(not_installed "${DEBIAN_PACKAGES[@]}")
    mapfile -t wanted < <(not_installed "${OPTIONAL_PACKAGES[@]}")
    [ $((${#missing[@]} + ${#wanted[@]})) -gt 0 ] || return 0
    if [ ${#missing[@]} -gt 0 ]; then
        [ "$(id -u)" = 0 ] || fail "these Debian packages are missing: ${missing[*]}; run this as root, or install them"
        command -v apt-get >/dev/null || fail "no apt-get here: install what holds ${missing[*]} yourself"
        apt-get update -qq || fail "apt-get could not learn what packages there are"
    fi
    for package in "${wanted[@]}"; do
        [ -z "$(apt-cache madison "$package" 2>/dev/null)" ] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing from Debian: ${missing[*]}"
    local status=0
    without_services env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o Dpkg::Use-Pty=0 "${missing[@]}" </dev/null >/dev/null || status=$?
    [ "$status" = 0 ] || fail "apt-get could not install ${missing[*]}"
}

# Whether ordinary users can come to a folder: radd and users' commands run from the checkout.
reachable() {
    local path
    path=$(readlink -f "$1")
    while [ "$path" != / ]; do
        [ $((0$(stat -c %a "$path") & 1)) = 1 ] || return 1
        path=$(dirname "$path")
    done
}

# Make or bring up to date the virtual environment, and set `python` to its interpreter.
# Arguments: run or dev (dev has all that run has), and what to install, as pip takes it.
make_venv() {
    local level=$1 venv=.venv facts
    shift
    if ! reachable .; then
        venv=/var/tmp/rad-venv-$(printf %s "$PWD" | cksum | cut -d' ' -f1)
        [ ! -L "$venv" ] && { [ ! -e "$venv" ] || [ -O "$venv" ]; } || fail "$venv belongs to somebody else: remove it"
        [ -e .venv ] && [ ! -L .venv ] || ln -sfn "$venv" .venv # so that it has the same name everywhere
    fi
    python=$venv/bin/python
    facts=$(pwd | cat - setup.cfg pyproject.toml scripts/lib.sh | cksum)
    if "$python" -c '' 2>/dev/null; then
        grep -qxF -e "$level $facts" -e "dev $facts" "$venv/stamp" 2>/dev/null && return 0
    else
        /usr/bin/python3 -m venv --clear "$venv"
    fi
    say "installing Python packages into $venv (the first time takes a minute or two)"
    # What pip compiles one by one is compiled side by side, and tests that come with packages are not.
    "$python" -m pip install -qq --disable-pip-version-check --no-compile "$@"
    "$python" -m compileall -qq -j 0 -x 'site-packages/.*/tests?/' "$venv/lib" || true # a file for another Python may not compile
    printf '%s\n' "$level $facts" >"$venv/stamp"
}
