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

# As in nvccache.c: run the compiler of this call without us; returns if there is none.
run_compiler() {
  case ${0##*/} in
  nvccache*) ;;
  nvcc*) set -- "${NVCCACHE_NVCC:-nvcc}" "$@" ;;
  esac
  while [ "${1##*/}" = nvccache ] && [ $# -gt 1 ]; do shift; done
  case ${1-} in
  -*) return ;;
  */*) is_ours "$1" || {
    become 3 "$@"
    return
  } ;;
  *nvc* | *cc* | *c++* | *g++* | *clang* | *icpx*) ;;
  *) return ;;
  esac
  name=${1##*/}
  [ "$name" != nvccache ] || name=nvcc
  shift
  rest=${PATH-/bin:/usr/bin}:
  while [ "$rest" ]; do
    entry=${rest%%:*} rest=${rest#*:}
    become 1 "${entry:-.}/$name" "$@"
  done
}

is_ours() {
  real=$(readlink -f -- "$1") || return 1
  case ${real##*/} in nvccache | nvccache-python) return 0 ;; esac
  [ -f "$real" ] && [ -r "$real" ] && head -c 8192 "$real" | grep -aqF '# The nvcc shim of nvccache.'
}

# MOST PATH ARGUMENTS...: exec a compiler, unless it is none or has led here MOST times.
become() {
  most=$1
  shift
  [ -f "$1" ] && [ -x "$1" ] && ! is_ours "$1" || return 0
  case $1 in
  /*) full=$1 ;;
  *) full=$PWD/$1 ;;
  esac
  tried=:${_NVCCACHE_TRIED-}:
  while [ "$tried" != "${tried#*:"$full":}" ]; do
    most=$((most - 1)) tried=:${tried#*:"$full":}
  done
  [ "$most" -gt 0 ] || return 0
  export _NVCCACHE_TRIED="${_NVCCACHE_TRIED:+$_NVCCACHE_TRIED:}$full"
  exec "$@"
}
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
  [ ! -x "$python" ] || [ -d "$python" ] || exec "$python" "$options" -X "nvccache=$0" "$script" "$@"
fi
if [ ! -x "$folder/python3" ] || [ ! -r "$script" ]; then
  run_compiler "$@"
  echo "nvccache: no Python to start: neither \`$folder/python3\` nor the one that \`$script\` names" >&2
  exit 127
fi
exec "$folder/python3" "$options" -X "nvccache=$0" "$script" "$@"
