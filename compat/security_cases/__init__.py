"""Cases of `security`, by what a client is told or asks for."""
