"""Categories: columns of levels without an order."""
