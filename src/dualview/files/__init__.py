"""Writing files whole, digests, and file formats."""
