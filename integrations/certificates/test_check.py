"""The golden certificates verify with other people's code, and no corrupted copy of one does.

    python -m unittest discover --start-directory integrations/certificates
"""

import base64
import json
import pathlib
import tempfile
import unittest

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from check import canonical, check, check_entries, leaf_hash, leaves_inside, node, root_of

GOLDEN = pathlib.Path(__file__).parents[2] / "crates" / "certificate" / "tests" / "golden"
SIGNER = Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))
KEY = SIGNER.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def verdict(data, key=KEY, entries=None):
    try:
        check(data, key, entries)
    except Exception as error:
        return type(error).__name__
    return "verified"


class GoldenFiles(unittest.TestCase):
    def setUp(self):
        self.files = [(GOLDEN / name).read_bytes() for name in ("certificate.json", "certificate-incomplete.json")]

    def test_the_golden_certificates_verify(self):
        for data in self.files:
            self.assertEqual(verdict(data), "verified")

    def test_certificates_of_the_version_before_verify(self):
        for name in ("certificate-v2.json", "certificate-incomplete-v2.json"):
            self.assertEqual(verdict((GOLDEN / name).read_bytes()), "verified")

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
            (with_predicate(version=2), "ValidationError"),
            (with_predicate(added=1), "ValidationError"),
            (with_predicate(program="another"), "Refused"),
        ]
        for payload, expected in cases:
            self.assertEqual(verdict(signed(payload)), expected, payload[:120])


class Entries(unittest.TestCase):
    """The golden files list every entry. With the limit lowered the rest would stand beside them."""

    def setUp(self):
        statement = json.loads(base64.b64decode(json.loads((GOLDEN / "certificate.json").read_bytes())["payload"]))
        self.predicate = statement["predicate"]
        self.leaves = list(leaves_inside(self.predicate).values())
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.file = pathlib.Path(temporary.name) / "certificate.entries.jsonl"

    def refusal(self, predicate, beside=None):
        try:
            return check_entries(predicate, beside)
        except Exception as error:
            return str(error) or type(error).__name__

    def lines(self, leaves):
        self.file.write_bytes(b"".join(canonical(leaf) + b"\n" for leaf in leaves))
        return self.file

    def test_the_root_is_that_of_the_lists(self):
        self.assertEqual(self.refusal(self.predicate), 0)
        self.assertEqual(root_of(map(leaf_hash, self.leaves)).hex(), self.predicate["entries"]["root"])
        for name in self.predicate["entries"]:
            if name != "proofs":
                changed = {**self.predicate["entries"], name: 1 if name != "root" else "0" * 64}
                if changed != self.predicate["entries"]:
                    self.assertNotEqual(self.refusal({**self.predicate, "entries": changed}), 0, name)

    def test_the_entries_beside_a_certificate_are_compared_with_its_root(self):
        self.assertEqual(self.refusal(self.predicate, self.lines(self.leaves)), 0)
        self.assertEqual(self.refusal(self.predicate, self.lines(self.leaves[1:])), "the entries have another root")
        swapped = self.lines([self.leaves[1], self.leaves[0], *self.leaves[2:]])
        self.assertEqual(self.refusal(self.predicate, swapped), "the entries are not ascending")
        self.file.write_bytes(self.lines(self.leaves).read_bytes()[:-1])
        self.assertEqual(self.refusal(self.predicate, self.file), "the last entry has no newline")

    def test_what_is_listed_is_proven_and_the_rest_is_said_not_to_be_checked(self):
        size = 2000
        extra = [{"possible_origin": 100 + at} for at in range(size - len(self.leaves))]
        hashes = [leaf_hash(leaf) for leaf in self.leaves + extra]
        members = [leaf for leaf in self.leaves if "member" in leaf]

        def path(index):
            siblings, level = [], hashes
            while len(level) > 1:
                if index ^ 1 < len(level):
                    siblings.append(level[index ^ 1].hex())
                paired = [node(*level[at : at + 2]) for at in range(0, len(level) - 1, 2)]
                level, index = paired + level[len(paired) * 2 :], index // 2
            return siblings

        proofs = [
            {"entry": leaf["member"]["manifest"]["entry"], "inclusion": path(at), "index": at}
            for at, leaf in enumerate(self.leaves)
            if "member" in leaf
        ]
        runtime = self.predicate["runtime_recovery"]
        entries = {
            **self.predicate["entries"],
            "possible_origins": size - len(members),
            "proofs": proofs,
            "root": root_of(hashes).hex(),
        }
        closure = {**runtime["closure"], "possible_origins": []}
        predicate = {**self.predicate, "entries": entries, "runtime_recovery": {**runtime, "closure": closure}}
        self.assertEqual(self.refusal(predicate), size - len(members))
        self.assertEqual(self.refusal(predicate, self.lines(self.leaves + extra)), 0)
        proofs[2]["inclusion"][0] = "0" * 64
        self.assertEqual(self.refusal(predicate), "an entry is not under the root")


if __name__ == "__main__":
    unittest.main()
