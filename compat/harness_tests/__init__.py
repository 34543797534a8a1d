"""Unit tests of the harness: `cluster --self-test` runs them."""
