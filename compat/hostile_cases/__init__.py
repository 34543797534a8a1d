"""Attacks for `hostile`, by what they attack."""
