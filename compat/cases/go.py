"""Clients for Go: franz-go and sarama, their transactions and groups."""

from harness.case import case

SCENARIOS = {
    "franz-go-transactions": ("franz", "transactions"),
    "franz-go-copies": ("franz", "copies"),
    "franz-go-members": ("franz", "members"),
    "sarama-transactions": ("sarama", "transactions"),
    "sarama-copies": ("sarama", "copies"),
}

for name, (program, scenario) in SCENARIOS.items():
    case(name)(lambda c, program=program, scenario=scenario: c.go(program, scenario))
