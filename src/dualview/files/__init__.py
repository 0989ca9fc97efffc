"""Atomic writing, digests, and file formats."""
