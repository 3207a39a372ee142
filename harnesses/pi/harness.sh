# Pi: a script, with the Node.js that is pinned beside it. `1.6.0`
binary_in() {
    program=$1/node_modules/.bin/pi
    [ -x "$program" ] && [ -x "$1/node_modules/.bin/node" ] && printf '%s\n' "$program"
}
version_of() {
    "$(dirname -- "$1")/node" "$1" --version
}
