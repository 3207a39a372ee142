# Codex: npm installs a launcher and the static program of this platform; the program is used as it is.
# `codex-cli 0.171.0`
binary_in() {
    for candidate in "$1"/node_modules/@openai/codex-*/vendor/*/bin/codex; do
        [ -x "$candidate" ] && printf '%s\n' "$candidate" && return 0
    done
    return 1
}
version_of() {
    CODEX_HOME=$HOME "$1" --version | sed -n '1s/^codex-cli //p'
}
