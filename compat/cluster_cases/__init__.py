"""Trials of a cluster for `cluster`, by what is done to it."""
