#!/usr/bin/env python3
"""Verifies a recovery certificate with other people's code: no line of Custody runs here.

    python check.py CERTIFICATE --key HEX [--schema SCHEMA]

The envelope is checked by securesystemslib, the statement by in-toto-attestation, the predicate by jsonschema.
Exit status 0 when everything holds, 1 when something does not, 2 on wrong usage.
"""

import argparse
import hashlib
import json
import pathlib
import sys

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from jsonschema import Draft202012Validator
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"
PREDICATE_SUFFIX = "#custody-recovery-certificate-v2"
SCHEMA = pathlib.Path(__file__).parents[2] / "docs" / "reference" / "certificate.schema.json"


class Refused(Exception):
    """Why a certificate is refused."""


def require(holds, why):
    if not holds:
        raise Refused(why)


def unique(members):
    """An object, unless it has a name twice: two readers could read it differently."""
    names = [name for name, _ in members]
    require(len(names) == len(set(names)), "a field stands there twice")
    return dict(members)


def canonical(value):
    """RFC 8785, for what certificates hold: ASCII names, text and integers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def parse(data, what):
    value = json.loads(data, object_pairs_hook=unique)
    require(canonical(value) == data, f"the {what} is not in its canonical form")
    return value


def check(data, public_key, schema):
    """The statement of a certificate, if everything about it holds."""
    envelope_json = parse(data, "envelope")
    require(set(envelope_json) == {"payload", "payloadType", "signatures"}, "the envelope has other fields")
    require(len(envelope_json["signatures"]) == 1, "there is not exactly one signature")

    key_id = hashlib.sha256(public_key).hexdigest()
    key = SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(public_key), keyid=key_id)
    envelope = Envelope.from_dict(envelope_json)
    envelope.verify([key], 1)
    require(envelope.payload_type == PAYLOAD_TYPE, "the payload is of another type")

    statement = parse(envelope.payload, "statement")
    message = json_format.ParseDict(statement, statement_pb2.Statement())
    Statement.copy_from_pb(message).validate()
    require(statement["predicateType"].endswith(PREDICATE_SUFFIX), "the predicate is of another type")

    predicate = statement["predicate"]
    Draft202012Validator(schema).validate(predicate)
    rest = {name: value for name, value in predicate.items() if name != "manifest_digest"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    require(digest == predicate["manifest_digest"], "the manifest digest is of something else")

    [subject] = statement["subject"]
    require(subject["name"] == predicate["incident"], "the subject is another incident")
    note = hashlib.sha256(predicate["audit"]["after"]["note"].encode()).hexdigest()
    require(subject["digest"] == {"sha256": note}, "the subject is another checkpoint")
    return statement


def main():
    parser = argparse.ArgumentParser(description="Verify a recovery certificate with other people's code.")
    parser.add_argument("certificate", type=pathlib.Path)
    parser.add_argument("--key", required=True, type=bytes.fromhex, help="the owner's public key, 64 hex digits")
    parser.add_argument("--schema", default=SCHEMA, type=pathlib.Path)
    arguments = parser.parse_args()
    schema = json.loads(arguments.schema.read_text())
    try:
        statement = check(arguments.certificate.read_bytes(), arguments.key, schema)
    except Exception as error:  # whatever any of the libraries objects to is a refusal
        print(f"refused: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        return 1
    outcome = statement["predicate"]["outcome"]
    missing = ", ".join(f"{reason['missing']} ({reason['count']})" for reason in outcome["reasons"])
    print(f"verified: {statement['predicate']['incident']} {outcome['state']}" + (f": {missing}" if missing else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
