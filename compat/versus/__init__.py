"""The side-by-side measurement behind `versus-kafka`."""
