"""What the commands in compat/ share: installing clients, starting brokers, running and comparing cases."""
