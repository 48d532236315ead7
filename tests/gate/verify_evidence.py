"""An independent verifier of evidence, made from docs/gate.md alone: nothing of twinlog is imported.

python verify_evidence.py EVIDENCE.json PUB.pem
"""

import base64
import hashlib
import json
import sys
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key


def verify(evidence: Path, public: Path) -> dict:
    """Return the signed payload.  Raises when the evidence is not what the key's owner signed."""
    document = json.loads(evidence.read_text(encoding="utf-8"))
    key = load_pem_public_key(public.read_bytes())
    raw = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    assert ("twinlog-evidence", 1) == (document["format"], document["version"])
    assert "Ed25519" == document["signature"]["algorithm"]
    assert hashlib.sha256(raw).hexdigest() == document["signature"]["key_sha256"], "another key"
    signed = json.dumps(document["payload"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    key.verify(base64.b64decode(document["signature"]["value"]), signed.encode("utf-8"))
    return document["payload"]


if __name__ == "__main__":
    gate = verify(Path(sys.argv[1]), Path(sys.argv[2]))["gate"]
    print(f"{gate['flow']} {gate['mode']}: {'ready' if gate['ready'] else 'not ready'}")
