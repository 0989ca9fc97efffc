"""Views whose clusters are one vector each, which all of a cluster's users share."""
