"""Worth on public data: how well the outcomes of known and of new users are predicted, by dualview
and by others."""
