"""Cases for `run` and `record`, one file per area or client."""
