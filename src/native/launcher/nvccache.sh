#!/bin/sh
# The launcher where nvccache was built without a C compiler: what nvccache.c does, but for two things. The shell
# may add PWD and variables of its own to the environment that nvcc gets, and it cannot hold SIGINT: while Python
# itself starts, ^C may still end in a traceback.
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

# Whether there is what Python loads before it runs a line of anybody's.
has_library() {
  home='' version=''
  if [ -r "${1%/*}/../pyvenv.cfg" ]; then
    while read -r key equals value; do
      case $key in
      home) home=$value ;;
      version | version_info) version=${value#3.} version=python3.${version%%.*} ;;
      esac
    done <"${1%/*}/../pyvenv.cfg"
  else
    home=$(readlink -f -- "$1") || return 1
    version=${home##*/} home=${home%/*}
  fi
  for library in "$home/../lib/$version" "$home/../lib64/$version"; do
    for module in __init__ aliases utf_8; do
      [ -r "$library/encodings/$module.py" ] || continue 2
    done
    return 0
  done
  return 1
}

has_room() {
  enough "$(ulimit -v)" 1048576 && enough "$(ulimit -d)" 1048576 && enough "$(ulimit -n)" 64
}

enough() {
  [ "$1" = unlimited ] || [ "$1" -ge "$2" ]
}

# PYTHON ARGUMENTS...: exec the interpreter, unless it does not run a line of Python.
start() {
  python=$1
  shift
  [ -x "$python" ] && [ ! -d "$python" ] || return 0
  { has_library "$python" && has_room; } || [ "$("$python" -ISc 'print(1)' </dev/null 2>/dev/null)" = 1 ] || return 0
  exec "$python" "$options" -X "nvccache=$0" "$script" "$@"
}

if [ -n "${_NVCCACHE_FAULT-}" ]; then
  fault=$_NVCCACHE_FAULT
  unset _NVCCACHE_FAULT
  run_compiler "$@"
  printf 'nvccache: %s\n' "$fault" >&2
  exit 127
fi
[ -z "${PYTHONDONTWRITEBYTECODE-}" ] || options=${options}B

# A script that was cut off might do nothing, and call that success.
if [ -r "$script" ] && [ "$(tail -n 1 -- "$script")" = '    sys.exit(main())' ]; then
  if [ ! -e "$folder/../pyvenv.cfg" ]; then
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
    start "$python" "$@"
  fi
  start "$folder/python3" "$@"
fi
run_compiler "$@"
echo "nvccache: no Python to start: neither \`$folder/python3\` nor the one that \`$script\` names" >&2
exit 127
