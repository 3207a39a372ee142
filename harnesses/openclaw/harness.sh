# OpenClaw: a script, with the Node.js that is pinned beside it. `OpenClaw 2026.9.6 (eb377ac)`
binary_in() {
    program=$1/node_modules/.bin/openclaw
    [ -x "$program" ] && [ -x "$1/node_modules/.bin/node" ] && printf '%s\n' "$program"
}
version_of() {
    "$(dirname -- "$1")/node" "$1" --version | sed -n '1s/^OpenClaw \([^ ]*\) .*/\1/p'
}
