"""Words and numbers for readers, of plain values: nothing here computes, and imports are light."""
