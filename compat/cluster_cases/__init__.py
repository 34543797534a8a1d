"""Cases of `cluster`, by kind of fault."""
