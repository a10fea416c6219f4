# Says what Penstock needs of this machine and does not find: Python 3.10+ with venv, Java 17 or 21.
set -eu

python=${1:-python3}
missing=0

lacks() {
    printf 'missing: %s\n   mend: %s\n' "$1" "$2" >&2
    missing=1
}

if ! command -v "$python" >/dev/null 2>&1; then
    lacks "Python 3.10 or newer ($python is not there)" "install it, or name one: make PYTHON=/path/to/python3 ..."
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    lacks "Python 3.10 or newer ($python is $("$python" -V 2>&1))" "name a newer one: make PYTHON=python3.12 ..."
elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    lacks "Python's venv module" "on Debian and Ubuntu: apt-get install python3-venv"
fi

java=${JAVA_HOME:+$JAVA_HOME/bin/}java
if ! command -v "$java" >/dev/null 2>&1; then
    lacks "Java 17 or 21 ($java is not there)" "on Debian and Ubuntu: apt-get install openjdk-17-jre-headless"
else
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
    case $version in
        17 | 21) ;;
        *) lacks "Java 17 or 21 ($java is ${version:-of no known version})" "install one, and set JAVA_HOME to its folder" ;;
    esac
fi

exit $missing
