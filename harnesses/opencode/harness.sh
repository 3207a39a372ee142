# OpenCode: one program, in the package of the platform (Linux on x86-64). `1.18.33`
binary_in() {
    for candidate in "$1"/node_modules/opencode-*/bin/opencode; do
        [ -x "$candidate" ] && printf '%s\n' "$candidate" && return 0
    done
    return 1
}
version_of() {
    "$1" --version | sed -n 1p
}
