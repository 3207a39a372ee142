# DeepSeek Harness: its own program in a virtual environment; it writes the version `0.2.1rc2` as `0.2.1-rc.2`.
binary_in() {
    [ -x "$1/venv/bin/dsh" ] && printf '%s\n' "$1/venv/bin/dsh"
}
version_of() {
    DSH_HOME=$HOME "$1" --version | sed -n '1s/-rc\./rc/p'
}
