#!/bin/sh
# Installs a pinned harness: scripts/install_harness.sh NAME [VERSION...]   (no VERSION: all that are pinned)
#
# The packages go into a cache outside the clone, ${ROLLER_HARNESS_CACHE:-~/.cache/roller-capture/harnesses}, and
# .harnesses/NAME/VERSION links to them. What is already there is only checked.
# Exit codes: 0 installed; 1 what was installed is not the pinned version; 2 wrong call; 3 not installable here
# (npm or network missing): the tests that need it then report NOT RUN.
set -eu

repository=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
cache=${ROLLER_HARNESS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/roller-capture/harnesses}

say() { printf '%s\n' "install_harness: $*" >&2; }
fail() { code=$1; shift; say "$*"; exit "$code"; }

# The binary of an installed Claude Code: npm installs the package of this platform only.
binary_in() {
    for candidate in "$1"/node_modules/@anthropic-ai/claude-code-*/claude; do
        [ -x "$candidate" ] && printf '%s\n' "$candidate" && return 0
    done
    return 1
}

# Runs it in an empty home, so that no user's settings are read or written.
version_of() {
    scratch=$(mktemp -d)
    HOME=$scratch CLAUDE_CONFIG_DIR=$scratch DISABLE_AUTOUPDATER=1 IS_SANDBOX=1 "$1" --version 2>/dev/null </dev/null | head -n 1 || true
    rm -rf "$scratch"
}

is_good() { # FOLDER PINNED VERSION
    cmp -s "$2/package-lock.json" "$1/package-lock.json" || return 1
    found=$(binary_in "$1") || return 1
    case $(version_of "$found") in "$3 "*) return 0 ;; *) return 1 ;; esac
}

install() { # PINNED VERSION TARGET
    command -v npm >/dev/null 2>&1 || fail 3 "npm is missing: install Node.js (20 or newer) and try again"
    mkdir -p "$(dirname -- "$3")" || fail 3 "cannot write to $(dirname -- "$3"): set ROLLER_HARNESS_CACHE"
    staging=$(mktemp -d "$3.part.XXXXXX") || fail 3 "cannot write to $(dirname -- "$3"): set ROLLER_HARNESS_CACHE"
    trap 'rm -rf "$staging"' EXIT INT TERM HUP
    cp "$1/package.json" "$1/package-lock.json" "$1/.npmrc" "$staging/"
    say "$name $2: downloading (200 to 400 MB)"
    (cd "$staging" && npm ci --no-progress --loglevel=error >&2) || fail 3 "npm could not install $name $2: see above"
    chmod 755 "$staging"
    is_good "$staging" "$1" "$2" || fail 1 "what npm installed is not $name $2, or does not run on this machine"
    rm -rf "$3"
    mv "$staging" "$3" 2>/dev/null || is_good "$3" "$1" "$2" || fail 3 "cannot move $staging to $3"
    trap - EXIT INT TERM HUP
}

link() { # TARGET VERSION
    mkdir -p "$repository/.harnesses/$name"
    place=$repository/.harnesses/$name/$2
    [ -L "$place" ] || [ ! -e "$place" ] || fail 2 "$place is in the way: it is no link of ours"
    rm -f "$place"
    ln -s "$1" "$place"
}

[ $# -ge 1 ] || fail 2 "usage: scripts/install_harness.sh NAME [VERSION...]"
name=$1
shift
[ -d "$repository/harnesses/$name" ] || fail 2 "no harness $name: there are $(ls "$repository/harnesses" | tr '\n' ' ')"
[ $# -ge 1 ] || set -- $(ls "$repository/harnesses/$name")

for version in "$@"; do
    pinned=$repository/harnesses/$name/$version
    [ -f "$pinned/package-lock.json" ] || fail 2 "$name $version is not pinned: there are $(ls "$repository/harnesses/$name" | tr '\n' ' ')"
    target=$cache/$name/$version
    if ! is_good "$target" "$pinned" "$version"; then
        install "$pinned" "$version" "$target"
    fi
    link "$target" "$version"
    say "$name $version: $(binary_in "$target")"
done
