"""Is dualview harmless? Held-out outcomes of known users, with features and outcomes as they
are and permuted."""
