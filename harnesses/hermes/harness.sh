# Hermes Agent: pip, into a virtual environment. `Hermes Agent v0.19.0 (2026.7.20)`
binary_in() {
    [ -x "$1/venv/bin/hermes" ] && printf '%s\n' "$1/venv/bin/hermes"
}
version_of() {
    # Asking for the version also looks for updates: there is nothing at that address.
    HERMES_HOME=$HOME HTTPS_PROXY=http://127.0.0.1:9 "$1" --version | sed -n '1s/^Hermes Agent v\([^ ]*\).*/\1/p'
}
