"""A Custody store under the nine edits of the Agent Memory Integrity suite (agmi)."""

from custody_agmi.adapter import CustodyAdapter, CustodyForgedAdapter

__all__ = ["CustodyAdapter", "CustodyForgedAdapter"]
