"""Protect the passwords of clusters on their way to Spark's tasks; does not talk to Spark.  Pure.

Classic sessions authenticate and encrypt (`protection`) by a secret that Spark makes for each run, or, on a standalone
master, by the one that master and workers share.  Of a Connect server a client knows only its address.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Protocol
from urllib.parse import quote, unquote

from twinlog.config.file.providers import MASK
from twinlog.errors import ConfigError
from twinlog.grouped import without_keys

log = logging.getLogger(__name__)

AUTHENTICATE = "spark.authenticate"
SECRET = "spark.authenticate.secret"
PROTECTED = {
    AUTHENTICATE: "true",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""The environment variable from which PySpark, and Spark's Connect server, read the token."""

_MAKES_SECRETS = re.compile(r"local(\[.*\])?|yarn|k8s://.*")
_CONNECT = re.compile(r"sc://(?P<host>\[[^]]+\]|[^:/;]+)[^;]*(?P<options>;.*)?", re.DOTALL)
_LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|\[::1\]", re.IGNORECASE)
_PUBLIC_OPTIONS = frozenset({"use_ssl", "user_id", "user_agent", "session_id"})


def protection(master: str, chosen: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings of a classic session; `chosen`, from spark-defaults.conf and spark-submit, stays.

    Raises ConfigError (`spark-secret`) if the master makes no secret of its own and none is given.
    `spark.authenticate = false` in spark-defaults.conf allows to go without.
    """
    wanted = without_keys(PROTECTED, chosen)
    if chosen.get(AUTHENTICATE, "true").lower() == "false":
        log.warning("Spark on %s authenticates nobody (spark.authenticate = false)", master)
        wanted.pop("spark.network.crypto.enabled", None)  # Spark refuses it then
        return wanted
    if SECRET not in chosen and not _MAKES_SECRETS.fullmatch(master):
        raise ConfigError(
            f"Spark on {master} has no {SECRET}: whoever reaches its ports could read what is sent to tasks",
            hint=f"put {AUTHENTICATE} = true and the secret of master and workers into spark-defaults.conf (mode 600)"
            f" of SPARK_CONF_DIR; or {AUTHENTICATE} = false, if nobody else is on this network",
            code="spark-secret",
            master=master,
        )
    return wanted


class MayHoldSecrets(Protocol):
    """A value that is sent to tasks: connections may hold passwords."""

    @property
    def holds_secrets(self) -> bool:
        """Say whether it must not be read by others."""


def require_safe_way(
    master: str, sent: Iterable[MayHoldSecrets], environ: Mapping[str, str] = os.environ
) -> None:
    """Refuse to send a secret in clear to a Connect server elsewhere, or to one without authentication.

    Raises ConfigError (`spark-exposed`).  Classic sessions were checked when they were opened.
    """
    if not master.startswith("sc://") or not any(secrets.holds_secrets for secrets in sent):
        return
    # PySpark reads an address like this: with a token it uses TLS, except to `localhost`.
    host, options = _parts(master)
    bearer = "token" in options or TOKEN_VARIABLE in environ
    token = bearer or "authorization" in options
    tls = options.get("use_ssl", "").lower() == "true" or (bearer and host not in {"localhost", "127.0.0.1"})
    if token and tls:
        return
    bare, _, _ = master.partition(";")
    if _LOOPBACK.fullmatch(host):
        if not token:
            _warn_once(f"{bare} asks for no token: whoever is on this machine may use it, and read passwords")
        return
    missing = " and ".join(what for what, there in (("no token", token), ("no TLS", tls)) if not there)
    raise ConfigError(
        f"the way to {bare} has {missing}, and the flow's passwords would go there",
        hint=f"start the server with {TOKEN_VARIABLE} behind TLS, and give twinlog the token: in the same variable,"
        " or as twinlog.spark.master = sc://host:port/;use_ssl=true;token=${file:...}",
        code="spark-exposed",
        master=bare,
    )


@cache
def _warn_once(message: str) -> None:
    """Warn once: each lane generation of a followed flow would repeat it."""
    log.warning(message)


def connect_url(master: str) -> str:
    """Return an address as PySpark takes it.

    PySpark takes a `/` or `=` in a token for one of the address, and quotes the token in its error.  A token on this
    machine, where nothing crosses a network, goes without TLS to `localhost` only.
    """
    address, _, rest = master.partition(";")
    host, options = _parts(master)
    if host == "127.0.0.1" and options.get("use_ssl", "").lower() != "true":
        address = address.replace(host, "localhost", 1)
    if not rest:
        return address
    quoted = (f"{name}={quote(value, safe='%')}" for name, value in options.items())
    return ";".join([address if address.count("/") > 2 else f"{address}/", *quoted])


def shares_session(master: str) -> bool:
    """Say whether an address names a session of the server that several clients use."""
    return "session_id" in dict(_options(master))


def without_tokens(text: str, master: str, environ: Mapping[str, str] = os.environ) -> str:
    """Mask the tokens of an address in a message of Spark, which quotes addresses that it cannot parse."""
    secrets = [value for name, value in _options(master) if name not in _PUBLIC_OPTIONS]
    for secret in filter(None, [*secrets, environ.get(TOKEN_VARIABLE, "")]):
        for form in {secret, unquote(secret), quote(secret, safe="%")}:
            text = text.replace(form, MASK)
    return text


def _parts(master: str) -> tuple[str, Mapping[str, str]]:
    found = _CONNECT.fullmatch(master)
    return (found["host"] if found is not None else "", dict(_options(master)))


def _options(master: str) -> list[tuple[str, str]]:
    _, _, rest = master.partition(";")
    pairs = (option.partition("=") for option in rest.split(";") if option)
    return [(name, value) for name, _, value in pairs]
