"""Every command and script in the auditor's guide runs, and answers what the guide says.

    python -m unittest discover --start-directory integrations/certificates
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "auditor.md"
GOLDEN = ROOT / "crates" / "certificate" / "tests" / "golden"
BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TOOLS = ("bash", "base64", "cmp", "jq", "openssl", "sha256sum", "xxd")


def blocks():
    """The fenced blocks of the guide, as (language, text)."""
    return BLOCK.findall(GUIDE.read_text())


def lay_out(folder):
    """The files that the guide speaks of: two certificates, the log that they are of, and what is in the project."""
    shutil.copy(GOLDEN / "certificate.json", folder / "certificate.json")
    shutil.copy(GOLDEN / "certificate.entries.jsonl", folder / "certificate.entries.jsonl")
    shutil.copy(GOLDEN / "certificate-incomplete.json", folder / "later.json")
    (folder / "ledger.jsonl").write_text("".join(f"record {number}\n" for number in range(31)))
    for linked in ("docs", "integrations"):
        (folder / linked).symlink_to(ROOT / linked)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)


class TheGuide(unittest.TestCase):
    def setUp(self):
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            self.skipTest(f"not installed here: {', '.join(missing)}")
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        lay_out(self.folder)
        self.environment = {"PATH": f"{self.folder}:/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}

    def run_all(self):
        """Runs the blocks in order. Yields what each command printed beside what the guide says it prints."""
        owner, found = "", blocks()
        for at, (language, text) in enumerate(found):
            if language == "python":
                name = re.match(r"# (\w+\.py)", text).group(1)
                (self.folder / name).write_text(text)
            elif language == "sh" and not text.startswith("pip "):
                owner = owner or next(line for line in text.splitlines() if line.startswith("OWNER="))
                script = f"set -euo pipefail\n{owner}\n{text}"
                ran = subprocess.run(
                    ["bash", "-c", script], cwd=self.folder, env=self.environment, capture_output=True, text=True
                )
                self.assertEqual(ran.returncode, 0, f"{text}\n{ran.stderr}")
                says = found[at + 1][1] if found[at + 1 : at + 2] and found[at + 1][0] == "text" else ""
                yield text, ran.stdout, says

    def test_every_command_answers_what_the_guide_says(self):
        ran = 0
        for command, answered, says in self.run_all():
            with self.subTest(command):
                self.assertEqual(answered, says)
            ran += 1
        self.assertGreater(ran, 12)

    def test_the_scripts_refuse_what_is_wrong(self):
        """Each script, on a statement with one value changed, ends with an error."""
        for _ in self.run_all():
            pass
        whole = (self.folder / "statement.json").read_text()
        owner = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
        changes = {
            "another size": ("\\n31\\n", "\\n30\\n"),
            "another record": ('"seq":24', '"seq":25'),
            "a record before the recovery": ('"seq":24', '"seq":23'),
            "another store": ("store-a0", "store-a1"),
        }
        scripts = ["checkpoints.py", "statement.json", owner]
        self.assertEqual(self.script(*scripts), 0)
        for name, (old, new) in changes.items():
            with self.subTest(name):
                self.assertIn(old, whole)
                (self.folder / "statement.json").write_text(whole.replace(old, new))
                self.assertNotEqual(self.script(*scripts), 0)
        (self.folder / "statement.json").write_text(whole)
        (self.folder / "ledger.jsonl").write_text("".join(f"record {n}\n" for n in [*range(30), 31]))
        self.assertNotEqual(self.script("roots.py", "ledger.jsonl", "statement.json"), 0)
        self.assertNotEqual(self.script("envelope.py", "certificate.json", "00" * 32), 0)

    def test_the_query_for_what_is_left_finds_it_in_an_incomplete_certificate(self):
        for _ in self.run_all():
            pass
        [query] = [text for language, text in blocks() if language == "sh" and "undone" in text]
        later = "jq -r .payload later.json | base64 -d > statement.json\n"
        ran = subprocess.run(["bash", "-c", later + query], cwd=self.folder, capture_output=True, text=True, check=True)
        # Two actions, an adapter that is loaded and one that is fused, three probes, and a limit.
        self.assertEqual(len(ran.stdout.splitlines()), 8, ran.stdout)

    def script(self, *arguments):
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True).returncode


class TheProofs(unittest.TestCase):
    """The guide's proofs against trees that are built the plain way."""

    def setUp(self):
        scripts = {re.match(r"# (\w+\.py)", text).group(1): text for kind, text in blocks() if kind == "python"}
        self.proofs: dict = {}
        exec(scripts["proofs.py"], self.proofs)

    def tree(self, leaves):
        if len(leaves) == 1:
            return leaves[0]
        left = 1 << (len(leaves) - 1).bit_length() - 1
        return self.proofs["node"](self.tree(leaves[:left]), self.tree(leaves[left:]))

    def path(self, index, leaves):
        if len(leaves) == 1:
            return []
        left = 1 << (len(leaves) - 1).bit_length() - 1
        if index < left:
            return self.path(index, leaves[:left]) + [self.tree(leaves[left:])]
        return self.path(index - left, leaves[left:]) + [self.tree(leaves[:left])]

    def consistency(self, first, leaves, whole=True):
        if first == len(leaves):
            return [] if whole else [self.tree(leaves)]
        left = 1 << (len(leaves) - 1).bit_length() - 1
        if first <= left:
            return self.consistency(first, leaves[:left], whole) + [self.tree(leaves[left:])]
        return self.consistency(first - left, leaves[left:], False) + [self.tree(leaves[:left])]

    def test_hold_for_every_small_tree_and_for_no_other(self):
        includes, continues = self.proofs["includes"], self.proofs["continues"]
        leaves = [bytes([number]) * 32 for number in range(20)]
        for size in range(1, 21):
            root = self.tree(leaves[:size])
            for index in range(size):
                path = self.path(index, leaves[:size])
                self.assertTrue(includes(leaves[index], index, size, path, root))
                self.assertFalse(includes(leaves[index], index + size, size, path, root))
                self.assertFalse(includes(bytes(32), index, size, path, root) and index)
                self.assertFalse(includes(leaves[index], index, size, path + [root], root))
            for first in range(1, size + 1):
                old, path = self.tree(leaves[:first]), self.consistency(first, leaves[:size])
                self.assertTrue(continues(first, old, size, root, path))
                self.assertFalse(continues(first, bytes([99]) * 32, size, root, path))
                self.assertFalse(continues(first, old, size, bytes([99]) * 32, path))
                self.assertFalse(continues(size + 1, root, size, old, path))


if __name__ == "__main__":
    unittest.main()
