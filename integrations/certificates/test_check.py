"""The golden certificates verify with other people's code, and no corrupted copy of one does.

    python -m unittest discover --start-directory integrations/certificates
"""

import base64
import json
import pathlib
import unittest

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from check import SCHEMA, canonical, check

GOLDEN = pathlib.Path(__file__).parents[2] / "crates" / "certificate" / "tests" / "golden"
SIGNER = Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))
KEY = SIGNER.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
PUBLISHED = json.loads(SCHEMA.read_text())


def verdict(data, key=KEY):
    try:
        check(data, key, PUBLISHED)
    except Exception as error:
        return type(error).__name__
    return "verified"


class GoldenFiles(unittest.TestCase):
    def setUp(self):
        self.files = [(GOLDEN / name).read_bytes() for name in ("certificate.json", "certificate-incomplete.json")]

    def test_the_golden_certificates_verify(self):
        for data in self.files:
            self.assertEqual(verdict(data), "verified")

    def test_the_signing_bytes_are_the_golden_ones(self):
        statement = base64.b64decode(json.loads(self.files[0])["payload"])
        signed = b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(statement), statement)
        self.assertEqual(signed, (GOLDEN / "certificate.pae").read_bytes())
        signature = base64.b64encode(SIGNER.sign(signed)).decode()
        self.assertEqual(signature, json.loads(self.files[0])["signatures"][0]["sig"])

    def test_every_corrupted_copy_is_refused(self):
        data = self.files[0]
        for at in range(0, len(data), 7):
            flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            self.assertNotEqual(verdict(flipped), "verified", f"byte {at}")
            self.assertNotEqual(verdict(data[:at]), "verified", f"cut at {at}")
        self.assertEqual(verdict(data + b"\n"), "Refused")
        self.assertNotEqual(verdict(data, bytes([2] * 32)), "verified")

    def test_every_other_envelope_is_refused(self):
        def changed(**fields):
            return canonical({**json.loads(self.files[0]), **fields})

        [row] = json.loads(self.files[0])["signatures"]
        self.assertEqual(verdict(changed()), "verified")
        self.assertEqual(verdict(changed(signatures=[])), "Refused")
        self.assertEqual(verdict(changed(signatures=[row, row])), "Refused")
        self.assertEqual(verdict(changed(signatures=[{**row, "keyid": "0" * 64}])), "VerificationError")
        self.assertEqual(verdict(changed(payloadType="application/json")), "VerificationError")
        self.assertEqual(verdict(changed(added=1)), "Refused")

    def test_what_the_owner_signed_must_be_a_statement_of_ours(self):
        statement = json.loads(base64.b64decode(json.loads(self.files[0])["payload"]))

        def signed(payload):
            pae = b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(payload), payload)
            row = json.loads(self.files[0])["signatures"][0]
            row["sig"] = base64.b64encode(SIGNER.sign(pae)).decode()
            envelope = json.loads(self.files[0])
            return canonical({**envelope, "payload": base64.b64encode(payload).decode(), "signatures": [row]})

        def with_predicate(**fields):
            return canonical({**statement, "predicate": {**statement["predicate"], **fields}})

        cases = [
            (canonical(statement), "verified"),
            (canonical(statement) + b" ", "Refused"),
            (canonical({**statement, "_type": "https://in-toto.io/Statement/v0.1"}), "ValueError"),
            (canonical({**statement, "subject": []}), "ValueError"),
            (canonical({**statement, "added": 1}), "ParseError"),
            (canonical({**statement, "predicateType": "https://slsa.dev/provenance/v1"}), "Refused"),
            (with_predicate(version=3), "ValidationError"),
            (with_predicate(added=1), "ValidationError"),
            (with_predicate(program="another"), "Refused"),
        ]
        for payload, expected in cases:
            self.assertEqual(verdict(signed(payload)), expected, payload[:120])


if __name__ == "__main__":
    unittest.main()
