"""The commands of `nvccache`, by name. Imports nothing: the shim asks it on every call it launches."""

# command -> the module that holds it; the module's function of the same name is the command
COMMANDS = {
    "stats": "nvccache.cli.stats",
    "events": "nvccache.cli.events",
    "clean": "nvccache.cli.clean",
    "config": "nvccache.cli.config",
    "explain": "nvccache.cli.explain",
    "report": "nvccache.report.command",
    "install": "nvccache.cli.install",
    "demo": "nvccache.cli.demo",
    "doctor": "nvccache.cli.doctor",
    "verify": "nvccache.cli.verify",
    "remote": "nvccache.cli.remote",
    "pack": "nvccache.cli.pack",
    "unpack": "nvccache.cli.unpack",
    "completion": "nvccache.cli.completion",
}
