"""What Parshall is meant to reach, and whether the medians of a run do. Goals whose cases were not run are left out."""

from . import cases, coordinator_cases, heavy_cases, report, security_cases

AFTER_ALL = "after all of it"
CPU, THROUGHPUT = "broker_cpu_us_per_record", "records_per_s"
TRANSACTION_CPU = "broker_cpu_ms_per_transaction"


class Ratio:
    """Parshall's figure divided by Kafka's: at least, or at most, so much."""

    def __init__(self, case, figure, least=None, most=None, divisor=None):
        self.case, self.figure, self.least, self.divisor = case, figure, least, divisor
        self.most = 1 / divisor if divisor else most

    def rows(self, medians):
        kafka, parshall = (medians.get((kind, self.case), {}).get(self.figure) for kind in ("kafka", "parshall"))
        if not kafka or parshall is None:
            return
        ratio = parshall / kafka
        reached = ratio >= self.least if self.least else ratio <= self.most
        factor = f"1/{self.divisor:g} of " if self.divisor else f"{self.least or self.most:g} times "
        goal = ("" if self.least == 1 or self.most == 1 else factor) + f"Kafka's or {'more' if self.least else 'less'}"
        shown = f"1/{1 / ratio:.2f}" if self.divisor and parshall else f"{ratio:.2f}"
        measured = f"{shown} ({report.number(parshall)} against {report.number(kafka)})"
        yield f"{self.case}: {report.title(self.figure)}", goal, measured, reached


class Most:
    """Parshall's figure in each case whose name begins so: at most so much."""

    def __init__(self, beginning, figure, most):
        self.beginning, self.figure, self.most = beginning, figure, most

    def rows(self, medians):
        for (kind, case), figures in medians.items():
            if kind == "parshall" and case.startswith(self.beginning) and self.figure in figures:
                value = figures[self.figure]
                title, goal = f"{case}: {report.title(self.figure)}", f"{self.most:g} or less"
                yield title, goal, report.number(value), value <= self.most


class Overhead:
    """Parshall's figure in one case is at most so many times its figure in another one."""

    def __init__(self, case, other, figure, most):
        self.case, self.other, self.figure, self.most = case, other, figure, most

    def rows(self, medians):
        value, base = (medians.get(("parshall", case), {}).get(self.figure) for case in (self.case, self.other))
        if value is not None and base:
            title, goal = f"{self.case}: {report.title(self.figure)}", f"{self.most:g} times {self.other}'s or less"
            measured = f"{value / base:.2f} ({report.number(value)} against {report.number(base)})"
            yield title, goal, measured, value / base <= self.most


class OneDurableWrite:
    """One record with acks=all takes what it takes with acks=1, and a write to the disk."""

    FACTOR = 1.3

    def rows(self, medians):
        one, durable = (medians.get(("parshall", cases.ONE_OWN.format(acks)), {}) for acks in ("1", "all"))
        if "p50_us" in one and "write_us" in durable:
            most = self.FACTOR * one["p50_us"] + durable["write_us"]
            terms = f"{self.FACTOR:g} x {report.number(one['p50_us'])} + {report.number(durable['write_us'])}"
            goal = f"{self.FACTOR:g} x acks=1's + one write of 4 KiB: {terms} = {report.number(most)}"
            title = f"{cases.ONE_OWN.format('all')}: {report.title('p50_us')}"
            yield title, goal, report.number(durable["p50_us"]), durable["p50_us"] <= most


GOALS = []
for name in (cases.SMALL_ALL, *(cases.ALL.format(partitions) for partitions in (3, 100, 1000))):
    GOALS += [Ratio(name, THROUGHPUT, least=1), Ratio(name, CPU, divisor=2)]
GOALS += [
    Ratio(cases.RATE_OWN, "p99_us", most=1),
    Ratio(cases.RATE_OWN, "p999_us", most=1),
    OneDurableWrite(),
    Ratio(cases.SMALL, CPU, divisor=3),
    Ratio(cases.SINGLE, CPU, divisor=5),
    Ratio(cases.BATCHED, CPU, divisor=2.5),
    Ratio(cases.consumed(cases.SMALL), CPU, divisor=1.5),
    Ratio(cases.consumed(cases.BATCHED), CPU, divisor=1.5),
    Ratio(heavy_cases.REPLICATED.format("all"), THROUGHPUT, least=3),
    Ratio(heavy_cases.REPLICATED.format("all"), CPU, divisor=4),
    *(Ratio(name, TRANSACTION_CPU, divisor=3) for name in coordinator_cases.TRANSACTIONS),
    *(Ratio(name, "commit_p99_us", divisor=2) for name in coordinator_cases.TRANSACTIONS),
    Overhead(*(coordinator_cases.READ.format(f"read_{kind}") for kind in ("committed", "uncommitted")), CPU, 1.05),
    Ratio(coordinator_cases.REBALANCE, "member_wait_s", most=1),
    Ratio(coordinator_cases.REBALANCE, "partition_wait_s", most=1),
    Most(coordinator_cases.HEARTBEATS, "broker_cores", 0.1),
    Ratio(security_cases.TLS, CPU, divisor=2),
    Ratio(cases.consumed(security_cases.TLS), CPU, divisor=2),
    Ratio(security_cases.HANDSHAKES, "handshakes_per_core_s", least=3),
    Most(AFTER_ALL, "memory_mib", 80),
    Most(heavy_cases.KILLED, "first_ack_s", 1),
]


def table(results):
    """Markdown; `results` as those of `report.table`."""
    medians = report.medians(results)
    rows = [row for goal in GOALS for row in goal.rows(medians)]
    lines = ["| compared with the goals | goal | measured | |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {work} | {wanted} | {measured} | {'reached' if reached else '**short of it**'} |"
        for work, wanted, measured, reached in rows
    ]
    return "\n".join(lines) if rows else ""
