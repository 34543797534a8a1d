"""Faults for `faults`, by where they strike."""
