"""Tokens of OAUTHBEARER logins."""

import base64
import json

import pytest

from twinlog.config.connection import SaslSettings
from twinlog.relay import bearer


def test_an_unsecured_token_is_never_issued_ahead_of_the_brokers_clock(monkeypatch: pytest.MonkeyPatch):
    """A broker cuts its own clock to milliseconds."""
    monkeypatch.setattr(bearer.time, "time", lambda: 1_700_000_000.9996)
    sasl = SaslSettings("OAUTHBEARER", "alice", unsecured_claims=(("role", "writer"),))
    _, claims, signature = bearer.token(sasl).split(".")
    decoded = json.loads(base64.urlsafe_b64decode(claims + "=="))
    expected = {"sub": "alice", "iat": 1_700_000_000, "exp": 1_700_003_600, "role": "writer"}
    assert (expected, "") == (decoded, signature)
