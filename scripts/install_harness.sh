#!/bin/sh
# Installs a pinned harness: scripts/install_harness.sh NAME [VERSION...]   (no VERSION: all that are pinned)
#
# harnesses/NAME/VERSION holds the lock file of one version: package-lock.json (npm) or requirements.txt (pip, with
# hashes); harnesses/NAME/harness.sh says where its program is and what that prints as its version. The packages go into
# a cache outside the clone, ${ROLLER_HARNESS_CACHE:-~/.cache/roller-capture/harnesses}, and .harnesses/NAME/VERSION
# links to them. What is already there is only checked.
# Exit codes: 0 installed; 1 what was installed is not the pinned version; 2 wrong call; 3 not installable here
# (npm, Python or network missing): the tests that need it then report NOT RUN.
set -eu

repository=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
cache=${ROLLER_HARNESS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/roller-capture/harnesses}

say() { printf '%s\n' "install_harness: $*" >&2; }
fail() { code=$1; shift; say "$*"; exit "$code"; }

lock_of() { # PINNED
    for candidate in package-lock.json requirements.txt; do
        [ -f "$1/$candidate" ] && printf '%s\n' "$candidate" && return 0
    done
    return 1
}

is_good() { # FOLDER PINNED VERSION
    cmp -s "$2/$(lock_of "$2")" "$1/.complete" || return 1
    found=$(binary_in "$1") || return 1
    # In an empty home, so that no user's settings are read or written.
    scratch=$(mktemp -d)
    printed=$(HOME=$scratch version_of "$found" 2>/dev/null </dev/null) || printed=
    rm -rf "$scratch"
    [ "$printed" = "$3" ]
}

download() { # FOLDER VERSION
    case $lock in
    package-lock.json)
        command -v npm >/dev/null 2>&1 || fail 3 "npm is missing: install Node.js (20 or newer) and try again"
        (cd "$1" && npm ci --no-progress --loglevel=error >&2) || fail 3 "npm could not install $name $2: see above"
        ;;
    requirements.txt)
        "${PYTHON:-python3}" -m venv "$1/venv" >&2 || fail 3 "Python cannot make a virtual environment: see above"
        "$1/venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
            --only-binary :all: -r "$1/requirements.txt" >&2 || fail 3 "pip could not install $name $2: see above"
        ;;
    esac
}

install() { # PINNED VERSION TARGET
    mkdir -p "$(dirname -- "$3")" || fail 3 "cannot write to $(dirname -- "$3"): set ROLLER_HARNESS_CACHE"
    say "$name $2: downloading (up to 700 MB)"
    # Not beside it and moved there, since a virtual environment knows its own path. What says that all of it is there
    # comes last.
    rm -rf "$3"
    mkdir -p "$3"
    for file in "$1"/* "$1"/.npmrc; do
        [ ! -f "$file" ] || cp "$file" "$3/"
    done
    lock=$(lock_of "$1")
    download "$3" "$2"
    chmod 755 "$3"
    cp "$1/$lock" "$3/.complete"
    is_good "$3" "$1" "$2" || fail 1 "what was installed is not $name $2, or does not run on this machine"
}

link() { # TARGET VERSION
    mkdir -p "$repository/.harnesses/$name"
    place=$repository/.harnesses/$name/$2
    [ -L "$place" ] || [ ! -e "$place" ] || fail 2 "$place is in the way: it is no link of ours"
    rm -f "$place"
    ln -s "$1" "$place"
}

known() { for known in "$repository/harnesses"/*/harness.sh; do basename "$(dirname -- "$known")"; done | tr '\n' ' '; }

[ $# -ge 1 ] || fail 2 "usage: scripts/install_harness.sh NAME [VERSION...]"
name=$1
shift
case $name in */*) found= ;; *) found=$repository/harnesses/$name/harness.sh ;; esac
[ -f "$found" ] || fail 2 "no harness $name: there are $(known)"
. "$found"
[ $# -ge 1 ] || set -- $(cd "$repository/harnesses/$name" && ls -d */ | tr -d /)

for version in "$@"; do
    pinned=$repository/harnesses/$name/$version
    [ -d "$pinned" ] && lock=$(lock_of "$pinned") || fail 2 "$name $version is not pinned: there are $(cd "$repository/harnesses/$name" && echo */)"
    target=$cache/$name/$version
    mkdir -p "$cache/$name" || fail 3 "cannot write to $cache: set ROLLER_HARNESS_CACHE"
    # One at a time: two runs may share the cache.
    exec 9>"$target.lock"
    ! command -v flock >/dev/null 2>&1 || flock 9
    if ! is_good "$target" "$pinned" "$version"; then
        install "$pinned" "$version" "$target"
    fi
    exec 9>&-
    link "$target" "$version"
    say "$name $version: $(binary_in "$target")"
done
