# Installs the Debian packages that the tests need and this machine lacks; with sudo when not root.
# After the Python, further lines may be given as words.
set -eu

python=${1:-python3}
[ $# -eq 0 ] || shift

# One line for each: a command that tells whether it is there, and the package that brings it.
needed() {
    cat <<END
${JAVA_HOME:+$JAVA_HOME/bin/}java -version|openjdk-17-jre-headless
$python -c "import venv, ensurepip"|python3-venv
mvn -version|maven
npm -version|npm
go version|golang
redis-server --version|redis-server
PATH=\$PATH:/usr/sbin nats-server --version|nats-server
ls /usr/lib/postgresql/*/bin/initdb|postgresql
END
    [ $# -eq 0 ] || printf '%s\n' "$@"
}

packages=$(needed "$@" | while IFS='|' read -r test package; do
    sh -c "$test" >/dev/null 2>&1 </dev/null || echo "$package"
done)
[ -n "$packages" ] || exit 0

command -v apt-get >/dev/null 2>&1 || {
    echo "the tests need these Debian packages, or what is like them here:" $packages >&2
    exit 3
}
sudo=
[ "$(id -u)" -eq 0 ] || sudo=sudo
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
