"""What to use instead of an option or a setting that does not exist: ccache's names, and misspelled ones."""

from __future__ import annotations

from nvccache import config

_NOTHING_IGNORED = "no input is ignored that the result depends on"
_BY_CONTENT = "all that the tools read is identified by content"
_ONE_MODE = "there is one mode, which needs no preprocessor for a hit"
_NO_CHOICE = "there is nothing to choose"
_EXPLAIN = "`nvccache explain` names the cause of a miss, and `NVCCACHE_LOG` a file for details"
_WRAPPER = "put the wrapper in front of nvccache, or around the host compiler"
_FILE = "the settings file is below `XDG_CONFIG_HOME`"
_BY_SIZE = "only its size limits the cache: `nvccache config max_size`"
_NO_SERVER = "there is no server to start or stop"
_URL = "`NVCCACHE_REMOTE` has the URL of the remote, with `,rw` to write to it"
_SERVERS = "servers remove old objects by themselves: S3 with a lifecycle rule, redis with `maxmemory`"
_COMPRESSED = "intermediates are always compressed, objects never"

# Options of ccache and sccache -> a command of ours, or why there is none.
_OPTIONS = {
    **dict.fromkeys(("-s", "--show-stats"), "nvccache stats"),
    **dict.fromkeys(("-z", "--zero-stats", "stats -z"), "nvccache stats --reset"),
    **dict.fromkeys(("-C", "--clear"), "nvccache clean --all"),
    **dict.fromkeys(("-c", "--cleanup"), "nvccache clean"),
    **dict.fromkeys(("-M", "--max-size"), "nvccache config max_size 20G"),
    **dict.fromkeys(("-F", "--max-files"), _BY_SIZE),
    **dict.fromkeys(("-p", "--show-config", "--config"), "nvccache config"),
    **dict.fromkeys(("-k", "--get-config"), "nvccache config NAME"),
    **dict.fromkeys(("-o", "--set-config"), "nvccache config NAME VALUE"),
    **dict.fromkeys(("-x", "--show-compression"), "nvccache stats"),
    **dict.fromkeys(("-X", "--recompress"), _COMPRESSED),
    **dict.fromkeys(("-d", "--dir", "--directory"), "`NVCCACHE_DIR` names the cache directory"),
    "--config-path": _FILE,
    "--evict-older-than": "nvccache clean --older-than",
    "--evict-namespace": "nvccache clean --matching",
    "--trim-dir": _SERVERS,
    "--print-stats": "nvccache stats --json",
    "--inspect": "nvccache explain",
    "--show-adv-stats": "nvccache stats --json",
    "--show-log-stats": "nvccache stats --since",
    "--stats-format": "nvccache stats --json",
    "--dist-status": "nvccache doctor",
    **dict.fromkeys(("--start-server", "--stop-server", "--stop-storage-helpers"), _NO_SERVER),
    "-v": "nvccache stats --json",
    "-V": "nvccache --version",
}
# Settings of ccache and sccache, as in a file and in variables but without underscores, where the most
# similar name is another setting or none -> a setting of ours, or why there is none.
_SETTINGS = {
    "cachedir": "dir",
    **dict.fromkeys(("compiler", "path"), "nvcc"),
    "logfile": "log",
    "maxfiles": _BY_SIZE,
    "memcached": "`NVCCACHE_REMOTE` names servers: redis, not memcached",
    **dict.fromkeys(("remotestorage", "secondarystorage"), "remote"),
    "statslog": "`nvccache events --json` prints every call",
    # sccache's
    "cachesize": "max_size",
    "errorlog": "log",
    "conf": _FILE,
    "localrwmode": "`NVCCACHE_READONLY` changes nothing in the cache",
    "idletimeout": _NO_SERVER,
    **dict.fromkeys(("bucket", "region", "endpoint", "s3keyprefix", "s3rwmode", "gcsbucket"), _URL),
    **dict.fromkeys(("redis", "redisendpoint", "webdavendpoint"), _URL),
    **dict.fromkeys(
        ("sloppiness", "hashdir", "ignoreheaders", "ignoreheadersinmanifest", "ignoreoptions"),
        _NOTHING_IGNORED,
    ),
    **dict.fromkeys(("compilercheck", "extrafiles", "extrafilestohash"), _BY_CONTENT),
    **dict.fromkeys(("direct", "directmode", "readonlydirect", "depend", "dependmode"), _ONE_MODE),
    **dict.fromkeys(("comments", "keepcommentscpp", "pchextsum", "pchexternalchecksum"), _ONE_MODE),
    **dict.fromkeys(("compress", "compression", "compresslevel", "compressionlevel"), _COMPRESSED),
    **dict.fromkeys(("stats", "hardlink", "fileclone", "inodecache", "compilertype"), _NO_CHOICE),
    **dict.fromkeys(("cpp2", "runsecondcpp", "extension", "cppextension", "limitmultiple"), _NO_CHOICE),
    "responsefileformat": _NO_CHOICE,
    **dict.fromkeys(("debug", "debugdir", "debuglevel"), _EXPLAIN),
    **dict.fromkeys(("prefix", "prefixcommand", "prefixcpp", "prefixcommandcpp"), _WRAPPER),
    **dict.fromkeys(("tempdir", "temporarydir"), "temporary files are below `TMPDIR`"),
    "configpath": _FILE,
    "namespace": "use a cache directory for each",
    "reshare": "what came from a remote is not sent to another",
    "remoteonly": "there is always a local cache, which `NVCCACHE_MAX_SIZE` keeps small",
    **dict.fromkeys(("absstderr", "absolutepathsinstderr"), "messages are those of nvcc"),
}
_ALIKE = 0.7


def for_option(unknown: str) -> str:
    """What to use instead of an option, or of a command with an option, to follow a sentence; or empty."""
    meant = _OPTIONS.get(unknown, "")
    if meant and not meant.startswith("nvccache "):
        return _without_counterpart(meant)
    return did_you_mean(meant)


def for_setting(unknown: str) -> str:
    """What to use instead of a setting, to follow a sentence; or empty.

    A variable is suggested for a variable, else a name.
    """
    meant = _meant(unknown)
    return _without_counterpart(meant) if " " in meant else did_you_mean(meant)


def new_name(unknown: str) -> str:
    """The setting that has the meaning of a misspelled one, a variable for a variable; empty if none has."""
    meant = _meant(unknown)
    return meant if meant.removeprefix(config.PREFIX).lower() in config.SETTINGS else ""


def _meant(unknown: str) -> str:
    """The setting that a misspelled one means, with `=0` if it means the contrary; or a clause, or empty."""
    name = unknown.removeprefix(config.PREFIX).lower()
    plain = name.replace("_", "")
    near = _SETTINGS.get(plain) or _SETTINGS.get(plain.removeprefix("no"), "")
    if near and near not in config.SETTINGS:
        return near
    is_negated = name[:2] == "no" and name[2:] in config.SETTINGS  # as CCACHE_NODISABLE
    if is_negated:
        near = name[2:]
    if not near:
        import difflib  # slow; every command imports this module

        near = next(iter(difflib.get_close_matches(name, config.SETTINGS, 1, _ALIKE)), "")
    if not near:
        return ""
    shown = config.SETTINGS[near].variable if unknown.startswith(config.PREFIX) else near
    return f"{shown}=0" if is_negated else shown


def did_you_mean(name: str) -> str:
    return f"; did you mean `{name}`?" if name else ""


def _without_counterpart(why: str) -> str:
    return f"; unlike in other caches, {why}"
