"""What opendal is told of a remote: where it is, and with which credentials it is asked.

Credentials are those of the service's own tools: in variables, in the files of those tools, and for HTTP
also in the URL. Where there are none, a bucket is asked without a signature, as a public one
may be. The metadata service of a cloud's machine is asked only on demand: elsewhere its address answers
nobody, and takes seconds to say so.
"""

from __future__ import annotations

import os

from nvccache import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nvccache.remote_url import Remote

    Options = dict[str, str]

_AWS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_AZURE = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN")


def of_reader(remote: Remote, environ: Mapping[str, str]) -> tuple[str, Options]:
    """The service of opendal that reads, and its options."""
    if remote.scheme in ("http", "https"):
        return "http", _of_http(remote, environ)
    return _OF[remote.scheme](remote, environ)


def of_writer(remote: Remote, environ: Mapping[str, str]) -> tuple[str, Options]:
    """The one that writes and lists, which for HTTP is WebDAV."""
    if remote.scheme in ("http", "https"):
        # nginx and others make the folders of what is put, and some do not know PROPFIND.
        return "webdav", {**_of_http(remote, environ), "disable_create_dir": "true"}
    return _OF[remote.scheme](remote, environ)


def is_anonymous(options: Mapping[str, str]) -> bool:
    """Whether requests with these options carry no credentials at all."""
    return "skip_signature" in options or not ({"password", "username"} & options.keys())


def _of_s3(remote: Remote, environ: Mapping[str, str]) -> tuple[str, Options]:
    options = {"bucket": remote.host, "root": f"/{remote.path}"}
    endpoint = remote.options.get("endpoint") or environ.get("AWS_ENDPOINT_URL", "")
    if endpoint:
        options["endpoint"] = endpoint
    region = remote.options.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    # A service that is not AWS mostly takes any region; AWS says by itself which one is right.
    options["region"] = region or "us-east-1"
    if remote.options.get("profile"):
        options["profile"] = remote.options["profile"]
    if remote.options.get("virtual_host"):
        options["enable_virtual_host_style"] = "true"
    asks_machine = bool(remote.options.get("ec2"))
    if not asks_machine:
        options["disable_ec2_metadata"] = "true"
    has_some = asks_machine or "profile" in options or any(map(environ.get, _AWS)) or _has_aws_file(environ)
    if remote.options.get("anonymous") or not has_some:
        options["skip_signature"] = "true"
    return "s3", options


def _has_aws_file(environ: Mapping[str, str]) -> bool:
    home = config.home_of(environ)
    named = environ.get("AWS_SHARED_CREDENTIALS_FILE", ""), environ.get("AWS_CONFIG_FILE", "")
    usual = (f"{home}/.aws/credentials", f"{home}/.aws/config") if home else ("", "")
    return any(os.path.isfile(said or path) for said, path in zip(named, usual, strict=True))


def _of_gs(remote: Remote, environ: Mapping[str, str]) -> tuple[str, Options]:
    options = {"bucket": remote.host, "root": f"/{remote.path}"}
    if remote.options.get("endpoint"):
        options["endpoint"] = remote.options["endpoint"]
    asks_machine = bool(remote.options.get("metadata"))
    if not asks_machine:
        options["disable_vm_metadata"] = "true"
    home = config.home_of(environ)
    usual = f"{home}/.config/gcloud/application_default_credentials.json"
    has_some = asks_machine or environ.get("GOOGLE_APPLICATION_CREDENTIALS") or os.path.isfile(usual)
    if remote.options.get("anonymous") or not has_some:
        options["skip_signature"] = "true"
    return "gcs", options


def _of_azblob(remote: Remote, environ: Mapping[str, str]) -> tuple[str, Options]:
    account = remote.options.get("account") or environ.get("AZURE_STORAGE_ACCOUNT", "")
    endpoint = remote.options.get("endpoint") or f"https://{account}.blob.core.windows.net"
    options = {"container": remote.host, "root": f"/{remote.path}", "endpoint": endpoint}
    if account:
        options["account_name"] = account
    key = environ.get("AZURE_STORAGE_ACCOUNT_KEY") or environ.get("AZURE_STORAGE_KEY", "")
    token = environ.get("AZURE_STORAGE_SAS_TOKEN", "")
    if remote.options.get("anonymous") or not (key or token):
        options["skip_signature"] = "true"
    elif key:
        options["account_key"] = key
    else:
        options["sas_token"] = token.lstrip("?")
    return "azblob", options


def _of_http(remote: Remote, environ: Mapping[str, str]) -> Options:
    options = {"endpoint": f"{remote.scheme}://{remote.host}:{remote.port}", "root": f"/{remote.path}"}
    user, password = remote.user, remote.password
    if not user and not password:
        user, password = _of_netrc(remote.host, environ)
    if user or password:
        options["username"], options["password"] = user, password
    return options


def _of_netrc(host: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """User and password that ~/.netrc, or the file that NETRC names, has for a host."""
    path = environ.get("NETRC") or os.path.join(config.home_of(environ) or "/", ".netrc")
    if not os.path.isfile(path):
        return "", ""
    import netrc

    try:
        found = netrc.netrc(path).authenticators(host)
    except (OSError, ValueError, netrc.NetrcParseError):
        return "", ""
    return (found[0] or "", found[2] or "") if found else ("", "")


_OF = {
    "s3": _of_s3,
    "gs": _of_gs,
    "azblob": _of_azblob,
}
