"""Log in by Kerberos (SASL/GSSAPI, RFC 4752), with the library `gssapi` (extra `kerberos`).

Kafka knows no security layer for it: TLS encrypts, or nothing does.  A ticket got from a keytab is kept in this
process's memory, and replaced by MIT's library once it has expired; a ticket cache is renewed by who made it.
"""

from __future__ import annotations

import os
from typing import Any

from twinlog.config.security.connection import KerberosSettings
from twinlog.errors import ClusterRefused, ClusterUnreachable, ConfigError, TwinlogError

_NO_LAYER = 1
_NOTHING_WRAPPED = bytes([_NO_LAYER, 0, 0, 0])
"""Our answer: no security layer, and therefore no size of wrapped messages."""

_CLOCKS = "set the clocks of this machine, the KDC and the brokers: they may differ by five minutes"
_KINIT = "get a new ticket (kinit, k5start), or use a keytab, which needs no renewal"
_KEYTAB = "make a new keytab: the principal's key has changed, or belongs to another realm"
_PRINCIPAL = "check principal in sasl.jaas.config, its realm above all"
_UNREACHABLE, _NO_CACHE = 156, 195
_HINTS = {
    6: _PRINCIPAL,  # KDC_ERR_C_PRINCIPAL_UNKNOWN
    7: "check sasl.kerberos.service.name, and that brokers are addressed by the host names of their principals",
    24: _KEYTAB,  # KDC_ERR_PREAUTH_FAILED
    31: _KEYTAB,  # KRB_AP_ERR_BAD_INTEGRITY
    32: _KINIT,  # KRB_AP_ERR_TKT_EXPIRED
    33: _CLOCKS,  # KRB_AP_ERR_TKT_NYV
    37: _CLOCKS,  # KRB_AP_ERR_SKEW
    148: _CLOCKS,  # KRB5_KDCREP_SKEW
    154: _PRINCIPAL,  # KRB5_REALM_UNKNOWN
    _UNREACHABLE: "check the KDC and the realm's entry in krb5.conf",  # KRB5_KDC_UNREACH
    _NO_CACHE: _KINIT,  # KRB5_FCC_NOFILE
}
"""By Kerberos' own error numbers (RFC 4120), which go on in MIT's krb5_err.et."""

_FIRST_ERROR = -1765328384


UNTOLD = "; the broker's log says why: as a rule clocks that differ by more than five minutes"
"""What is added to a broker's refusal of a ticket, which names no reason."""


class Exchange:
    """A login to the broker at `host`, step by step (kafka_python.SaslMechanism).

    Raises ConfigError if the library or the keytab is missing, ClusterRefused if there is no ticket to be had, and
    ClusterUnreachable if no KDC answers.  All have the code `authentication`.
    """

    def __init__(self, settings: KerberosSettings, host: str, alias: str) -> None:
        self._alias, self._settings = alias, settings
        gssapi = _library()
        self._errors = gssapi.exceptions.GSSError
        self._last = self._done = False
        _check_keytab(settings.keytab)
        try:
            broker = gssapi.Name(f"{settings.service}@{host}", gssapi.NameType.hostbased_service)
            self._context: Any = gssapi.SecurityContext(
                name=broker,
                creds=_credentials(gssapi, settings),
                mech=gssapi.MechType.kerberos,
                usage="initiate",
            )
            self._next: bytes = self._context.step() or b""
        except self._errors as error:
            raise self._failed(error) from None

    def auth_bytes(self) -> bytes:
        """Return the bytes to send next."""
        return self._next

    def receive(self, auth_bytes: bytes) -> None:
        """Take the broker's answer: a token of the context, the security layers that it offers, or nothing any more."""
        try:
            if self._last:
                self._done = True
            elif not self._context.complete:
                self._next = self._context.step(auth_bytes) or b""
            else:
                self._choose(self._context.unwrap(auth_bytes).message)
        except self._errors as error:
            raise self._failed(error) from None

    def is_done(self) -> bool:
        """Say whether the broker has taken our choice."""
        return self._done

    def _choose(self, offered: bytes) -> None:
        if not offered or not offered[0] & _NO_LAYER:
            raise ClusterRefused(
                f"cluster {self._alias} demands a security layer of Kerberos, which Kafka does not know",
                code="authentication",
                cluster=self._alias,
            )
        self._next = self._context.wrap(_NOTHING_WRAPPED, False).message
        self._last = True

    def _failed(self, error: Any) -> TwinlogError:
        number = (error.min_code - _FIRST_ERROR) & 0xFFFFFFFF
        code, major = (error.min_code, False) if error.min_code else (error.maj_code, True)
        said = " ".join(error.get_all_statuses(code, major))
        hint = _HINTS.get(
            number, "check sasl.jaas.config and krb5.conf (KRB5_TRACE=/dev/stderr shows each step)"
        )
        if number == _NO_CACHE and self._settings.keytab:
            said = f"{self._settings.keytab} holds no key of {self._settings.principal}"
            hint = "klist -k lists what it holds"
        if number == _UNREACHABLE:
            return ClusterUnreachable(f"no Kerberos ticket: {said}", hint=hint, cluster=self._alias)
        what = f"no Kerberos login to cluster {self._alias}: {said}"
        return ClusterRefused(what, hint=hint, code="authentication", cluster=self._alias)


def _credentials(gssapi: Any, settings: KerberosSettings) -> Any:
    store = {}
    if settings.keytab:
        memory = f"MEMORY:twinlog {settings.principal} {settings.keytab}"
        store = {"client_keytab": f"FILE:{settings.keytab}", "ccache": memory}
    elif settings.ticket_cache:
        store = {"ccache": settings.ticket_cache}
    name = gssapi.Name(settings.principal, gssapi.NameType.kerberos_principal) if settings.principal else None
    return gssapi.Credentials(
        name=name, usage="initiate", store=store or None, mechs=[gssapi.MechType.kerberos]
    )


def _check_keytab(keytab: str) -> None:
    if keytab and not os.access(keytab, os.R_OK):
        raise ConfigError(
            f"the keytab {keytab} is not there, or this user may not read it",
            hint="put it at this path wherever twinlog and Spark's workers run",
            code="authentication",
        )


def _library() -> Any:
    try:
        import gssapi  # an extra; most lanes never need it
    except ImportError as error:
        raise ConfigError(
            f"a login by Kerberos needs the library gssapi: {error}",
            hint="pip install 'twinlog[kerberos] @ file:...', also where Spark's workers run",
            code="authentication",
        ) from None
    return gssapi
