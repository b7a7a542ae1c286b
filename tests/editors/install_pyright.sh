#!/usr/bin/env bash
# Installs Pyright into .editors/ (or $GPUEMU_EDITORS_DIR), with the Node that install_vscode.sh has put there.
set -euo pipefail
cd "$(dirname "$0")/../.."
PYRIGHT=1.1.414
DIR=${GPUEMU_EDITORS_DIR:-$PWD/.editors}
[ "$(sed -n 's/^ *"version": "\(.*\)",$/\1/p' "$DIR/pyright/node_modules/pyright/package.json" 2>/dev/null)" = "$PYRIGHT" ] && exit 0
mkdir -p "$DIR/pyright"
cd "$DIR/pyright"
PATH=$DIR/bin:$PATH npm install --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error "pyright@$PYRIGHT"
