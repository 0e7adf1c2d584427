"""The nine edits against a real store, and that the adapter itself cannot make them pass.

    CUSTODY=target/debug/custody python -m unittest discover --start-directory integrations/agmi
"""

import os
import shutil
import tempfile
import unittest
from pathlib import Path

from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT
from agmi.check import run

from custody_agmi import rows
from custody_agmi.adapter import CustodyAdapter, CustodyForgedAdapter
from custody_agmi.program import Failed, Program, Tampered

CUSTODY = os.environ.get("CUSTODY") or shutil.which("custody")


@unittest.skipUnless(CUSTODY, "set CUSTODY to the program")
class NineEdits(unittest.TestCase):
    def refused(self, adapter: CustodyAdapter) -> None:
        verdicts = run(adapter)
        self.assertEqual(len(verdicts), 9)
        for row in verdicts:
            with self.subTest(row["edit"]):
                self.assertEqual(row["verdict"], "REJECTED", row["detail"])
                self.assertIn("the store was tampered with", row["detail"])

    def test_each_is_refused_on_read(self) -> None:
        self.refused(CustodyAdapter(CUSTODY))

    def test_each_is_refused_from_an_attacker_who_recomputes_commitments(self) -> None:
        self.refused(CustodyForgedAdapter(CUSTODY))


@unittest.skipUnless(CUSTODY, "set CUSTODY to the program")
class TheAdapter(unittest.TestCase):
    def setUp(self) -> None:
        self.adapter = CustodyAdapter(CUSTODY)
        self.adapter.setup()
        self.addCleanup(self.adapter.teardown)
        self.adapter.seed(3)
        self.program = self.adapter._program

    def test_reads_what_was_written_and_puts_it_back_byte_for_byte(self) -> None:
        found = rows.writes(self.program.database, "main")
        self.assertEqual([row.content for row in found], [f"alice remembers the seed number {n}".encode() for n in range(3)])
        self.assertEqual(self.program.read("seed/1")["value"], "alice remembers the seed number 1")
        for row in found:
            rows.put(self.program.database, row)
        self.assertTrue(self.adapter.verify(), self.adapter.verify_detail)

    def test_a_recomputed_commitment_is_the_one_that_custody_computes(self) -> None:
        for row in rows.writes(self.program.database, "main"):
            stored = rows.spelled(row.record)
            row.commit()
            self.assertEqual(rows.spelled(row.record), stored)

    def test_takes_no_other_failure_for_a_refusal(self) -> None:
        with self.assertRaises(Failed):
            self.program.read("no/such/item")
        shutil.rmtree(self.program.root / "keys")
        with self.assertRaises(Failed):
            self.adapter.verify()

    def test_an_edit_that_changes_no_row_is_no_edit(self) -> None:
        row = rows.writes(self.program.database, "main")[0]
        row.seq = 10_000
        with self.assertRaises(RuntimeError):
            rows.put(self.program.database, row)

    def test_the_refusal_is_on_the_read_and_leaves_other_items_alone(self) -> None:
        """A content that was altered is refused where it is read; the log itself is whole."""
        row = rows.writes(self.program.database, "main")[1]
        row.content = b"something else"
        rows.put(self.program.database, row)
        with self.assertRaises(Tampered):
            self.program.read("seed/1")
        self.assertEqual(self.program.read("seed/0")["value"], "alice remembers the seed number 0")

    def test_the_limit_is_the_folder_of_the_head(self) -> None:
        """Who restores the head's folder too goes unnoticed: it is why the head stands elsewhere."""
        with tempfile.TemporaryDirectory() as kept:
            shutil.copytree(self.program.root, Path(kept) / "root")
            self.adapter.append_genuine()
            shutil.rmtree(self.program.root)
            shutil.copytree(Path(kept) / "root", self.program.root)
        self.assertTrue(self.adapter.verify(), self.adapter.verify_detail)


class TheSuite(unittest.TestCase):
    def test_has_nine_edits(self) -> None:
        self.assertEqual(len(AT_REST_ATTACKS_WITH_SNAPSHOT), 9)

    def test_without_the_program_nothing_counts_as_refused(self) -> None:
        verdicts = {row["verdict"] for row in run(CustodyAdapter("/no/such/program"))}
        self.assertEqual(verdicts, {"NOT EVALUABLE"})

    def test_founding_says_why_it_failed(self) -> None:
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(Failed):
            Program(Path(folder), shutil.which("false") or "false").found({})


class ProgramThatEndsAtOnce(unittest.TestCase):
    def test_its_last_words_are_heard_whether_or_not_it_read_what_it_was_told(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "custody"
            program.write_text("#!/bin/sh\nexec 0<&-\necho 'error: the store was tampered with' >&2\nexit 2\n")
            program.chmod(0o700)
            for _ in range(50):
                with self.assertRaises(Tampered), Program(Path(folder), str(program)).session("alice"):
                    pass


if __name__ == "__main__":
    unittest.main()
