"""Bearer tokens for Amazon MSK by IAM, signed by Amazon's own library (extra `msk`)."""

from __future__ import annotations

import os

from twinlog.errors import ConfigError


def token(
    region: str = "",
    profile: str = "",
    role_arn: str = "",
    role_session_name: str = "twinlog",
) -> tuple[str, float]:
    """Return a token, and when it ends (epoch s).

    Credentials are those of the profile or the role if one is given, else what Amazon's library finds on this machine.
    `region` is that of the brokers' names, else AWS_REGION.  Raises ConfigError if there is none, or no such library.
    """
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    except ImportError:
        raise ConfigError(
            "a login to MSK by IAM needs Amazon's library",
            hint="pip install 'twinlog[msk] @ file:...', also where Spark's workers run",
            code="oauth",
        ) from None
    where = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "")
    if not where:
        raise ConfigError(
            "the region of the MSK cluster is not known", hint="set the variable AWS_REGION", code="oauth"
        )
    if role_arn:
        found = MSKAuthTokenProvider.generate_auth_token_from_role_arn(where, role_arn, role_session_name)
    elif profile:
        found = MSKAuthTokenProvider.generate_auth_token_from_profile(where, profile)
    else:
        found = MSKAuthTokenProvider.generate_auth_token(where)
    text, expires_ms = found
    return text, expires_ms / 1000
