#!/usr/bin/env python3
"""Verifies a recovery certificate with other people's code: no line of Custody runs here.

    python check.py CERTIFICATE --key HEX [--entries FILE] [--schema SCHEMA]

The envelope is checked by securesystemslib, the statement by in-toto-attestation, the predicate by jsonschema, and the
entries by the tree of RFC 9162, which is written out below.
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
PREDICATE_SUFFIX = "#custody-recovery-certificate-v"
REFERENCE = pathlib.Path(__file__).parents[2] / "docs" / "reference"
SCHEMAS = {"3": REFERENCE / "certificate.schema.json", "2": REFERENCE / "certificate-v2.schema.json"}
MAX_LISTED = 1000


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


def node(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def leaf_hash(leaf):
    return hashlib.sha256(b"\x00" + canonical(leaf)).digest()


def root_of(hashes):
    """RFC 9162 2.1.1."""
    level = list(hashes) or [hashlib.sha256().digest()]
    while len(level) > 1:
        paired = [node(*level[at : at + 2]) for at in range(0, len(level) - 1, 2)]
        level = paired + level[len(paired) * 2 :]
    return level[0]


def includes(leaf, index, size, path, root):
    """RFC 9162 2.1.3.2."""
    at, last, reached = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if at & 1 or at == last:
            reached = node(sibling, reached)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            reached = node(reached, sibling)
        at, last = at >> 1, last >> 1
    return index < size and last == 0 and reached == root


def leaves_inside(predicate):
    """The leaves that stand inside a certificate, put together from its lists, ascending."""
    runtime, residual = predicate["runtime_recovery"], predicate["residual"]
    closure = runtime["closure"]
    rows = [row["entry"] for row in runtime["manifest_entries"]]
    require(rows == closure["members"], "the manifest is not of the members")
    require(rows == [row["entry"] for row in predicate["risk_scores"]["entries"]], "the scores are not of the members")
    seeds, quarantined = set(closure["seeds"]), set(residual["quarantined"])
    spared = {row["entry"]: row["covered_by"] for row in predicate["spared"]}
    unfinished = {row["entry"]: row["why"] for row in residual["unfinished"]}
    effects = {}
    for effect in residual["effects"]:
        effects.setdefault(effect["entry"], []).append(effect)
    leaves = {entry: {"possible_origin": entry} for entry in closure["possible_origins"]}
    for row, risk in zip(runtime["manifest_entries"], predicate["risk_scores"]["entries"]):
        entry = row["entry"]
        leaves[entry] = {
            "member": {
                "effects": effects.get(entry, []),
                "manifest": row,
                "quarantined": entry in quarantined,
                "risk": risk,
                "seed": entry in seeds,
                "spared": spared.get(entry),
                "unfinished": unfinished.get(entry),
            }
        }
    return dict(sorted(leaves.items()))


def counts(leaves):
    """The counts and totals that leaves have. Takes them one at a time."""
    names = ("effects", "members", "possible_origins", "quarantined", "seeds", "spared", "unfinished")
    found = dict.fromkeys(names, 0)
    totals = {action: {"done": 0, "planned": 0} for action in ("evict", "flag", "none", "purge", "quarantine")}
    for leaf in leaves:
        member = leaf.get("member")
        if member is None:
            found["possible_origins"] += 1
            continue
        row, risk = member["manifest"], member["risk"]
        require(row["entry"] == risk["entry"], "a score is of another entry")
        require(row["done"] == (member["unfinished"] is None), "what is done and what is unfinished disagree")
        found["members"] += 1
        found["effects"] += len(member["effects"])
        for name, holds in (
            ("quarantined", member["quarantined"]),
            ("seeds", member["seed"]),
            ("spared", member["spared"] is not None),
            ("unfinished", not row["done"]),
        ):
            found[name] += holds
        totals[row["action"]]["planned"] += 1
        totals[row["action"]]["done"] += row["done"]
    return found, totals


def leaves_beside(path):
    """The leaves in a file of entries, one line at a time."""
    before = -1
    with open(path, "rb") as lines:
        for line in lines:
            require(line.endswith(b"\n"), "the last entry has no newline")
            leaf = parse(line[:-1], "entry")
            entry = leaf["member"]["manifest"]["entry"] if "member" in leaf else leaf["possible_origin"]
            require(entry > before, "the entries are not ascending")
            before = entry
            yield leaf


def check_whole(predicate, leaves):
    """That root and counts are those of these leaves, taken one at a time."""
    hashes, inside = [], leaves_inside(predicate)
    listed = set(inside)

    def seen():
        for leaf in leaves:
            hashes.append(leaf_hash(leaf))
            entry = leaf["member"]["manifest"]["entry"] if "member" in leaf else leaf["possible_origin"]
            if entry in listed:
                require(leaf == inside[entry], "an entry is listed otherwise")
                listed.discard(entry)
            yield leaf

    found, totals = counts(seen())
    stated = predicate["entries"]
    require(root_of(hashes).hex() == stated["root"], "the entries have another root")
    require(not listed, "an entry is listed that is none")
    require(found == {name: stated[name] for name in found}, "the counts are not those of the entries")
    require(totals == predicate["runtime_recovery"]["totals"], "the totals are not those of the entries")


def check_entries(predicate, beside):
    """How many entries are not listed, and were not given; 0 when all were checked against the root."""
    stated, inside = predicate["entries"], leaves_inside(predicate)
    size = stated["members"] + stated["possible_origins"]
    if beside is not None:
        check_whole(predicate, leaves_beside(beside))
        return 0
    if len(inside) == size:
        check_whole(predicate, inside.values())
        return 0
    require(len(inside) < size and size > MAX_LISTED, "there are other entries than are counted")
    require([proof["entry"] for proof in stated["proofs"]] == list(inside), "there is not one proof for each entry")
    root, at = bytes.fromhex(stated["root"]), -1
    for proof, leaf in zip(stated["proofs"], inside.values()):
        path = [bytes.fromhex(sibling) for sibling in proof["inclusion"]]
        require(proof["index"] > at, "the proofs are not ascending")
        at = proof["index"]
        require(includes(leaf_hash(leaf), at, size, path, root), "an entry is not under the root")
    found, _ = counts(inside.values())
    for name in ("effects", "quarantined", "seeds", "unfinished"):
        require(min(stated[name], MAX_LISTED) <= found[name] <= stated[name], f"too few or too many {name} are listed")
    totals = predicate["runtime_recovery"]["totals"].values()
    planned, done = (sum(total[name] for total in totals) for name in ("planned", "done"))
    require(planned == stated["members"], "the totals do not count every member")
    require(planned - done == stated["unfinished"], "the totals are not of what is unfinished")
    return size - len(inside)


def check(data, public_key, entries=None, schema=None):
    """The statement of a certificate and how many entries were not checked, if everything else about it holds."""
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
    _, suffix, version = statement["predicateType"].partition(PREDICATE_SUFFIX)
    require(suffix and version in SCHEMAS, "the predicate is of another type")

    predicate = statement["predicate"]
    Draft202012Validator(json.loads((schema or SCHEMAS[version]).read_text())).validate(predicate)
    rest = {name: value for name, value in predicate.items() if name != "manifest_digest"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    require(digest == predicate["manifest_digest"], "the manifest digest is of something else")

    [subject] = statement["subject"]
    require(subject["name"] == predicate["incident"], "the subject is another incident")
    note = hashlib.sha256(predicate["audit"]["after"]["note"].encode()).hexdigest()
    require(subject["digest"] == {"sha256": note}, "the subject is another checkpoint")
    # The version before lists every entry and has no root.
    return statement, check_entries(predicate, entries) if version == "3" else 0


def main():
    parser = argparse.ArgumentParser(description="Verify a recovery certificate with other people's code.")
    parser.add_argument("certificate", type=pathlib.Path)
    parser.add_argument("--key", required=True, type=bytes.fromhex, help="the owner's public key, 64 hex digits")
    parser.add_argument("--entries", type=pathlib.Path, help="the entries, where they do not all stand inside")
    parser.add_argument("--schema", type=pathlib.Path)
    arguments = parser.parse_args()
    data = arguments.certificate.read_bytes()
    try:
        statement, left = check(data, arguments.key, arguments.entries, arguments.schema)
    except Exception as error:  # whatever any of the libraries objects to is a refusal
        print(f"refused: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        return 1
    outcome = statement["predicate"]["outcome"]
    missing = ", ".join(f"{reason['missing']} ({reason['count']})" for reason in outcome["reasons"])
    print(f"verified: {statement['predicate']['incident']} {outcome['state']}" + (f": {missing}" if missing else ""))
    if left:
        print(f"not checked: what {left} entries are, what was done to them, and that the counts are theirs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
