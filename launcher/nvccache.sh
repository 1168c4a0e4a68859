#!/bin/sh
# The launcher where nvccache was built without a C compiler: what nvccache.c does, but for one thing. The shell
# may add PWD and variables of its own to the environment that nvcc gets.
own=$0
[ ! -L "$own" ] || own=$(readlink -f -- "$own")
case $own in
*/*) folder=${own%/*} ;;
*) folder=. ;;
esac
folder=$(CDPATH='' cd -- "$folder/" && pwd -P) || exit 127
script=$folder/nvccache-python
options=-IS
[ -z "${PYTHONDONTWRITEBYTECODE-}" ] || options=${options}B

if [ ! -e "$folder/../pyvenv.cfg" ] && [ -r "$script" ]; then
  { IFS= read -r first && IFS= read -r second; } <"$script" || :
  case $second in
  "'''exec' "*)
    python=${second#"'''exec' "}
    case $python in
    \"*) python=${python#?} python=${python%%\"*} ;;
    \'*) python=${python#?} python=${python%%\'*} ;;
    *) python=${python%% *} ;;
    esac
    ;;
  *)
    python=${first#??}
    [ -x "$python" ] || python=${python%% *}
    ;;
  esac
  [ ! -x "$python" ] || exec "$python" "$options" -X "nvccache=$0" "$script" "$@"
fi
if [ ! -x "$folder/python3" ]; then
  case ${0##*/}:${1-} in
  nvccache:-*) ;;
  nvccache:*/*) exec "$@" ;;
  esac
  echo "nvccache: no Python to start: neither \`$folder/python3\` nor the one that \`$script\` names" >&2
  exit 127
fi
exec "$folder/python3" "$options" -X "nvccache=$0" "$script" "$@"
