# Claude Code: npm installs the package of this platform only. `2.1.332 (Claude Code)`
binary_in() {
    for candidate in "$1"/node_modules/@anthropic-ai/claude-code-*/claude; do
        [ -x "$candidate" ] && printf '%s\n' "$candidate" && return 0
    done
    return 1
}
version_of() {
    CLAUDE_CONFIG_DIR=$HOME DISABLE_AUTOUPDATER=1 IS_SANDBOX=1 "$1" --version | sed -n '1s/ (Claude Code)$//p'
}
