"""The table of a run: medians over the rounds, their spread, and the ratio of the two brokers."""

import statistics

# Figure, what it is called, whether more is better.
FIGURES = [
    ("records_per_s", "records/s", True),
    ("consumed_per_s", "records/s consumed meanwhile", True),
    ("mib_per_s", "MiB/s", True),
    ("avg_ms", "average ms", False),
    ("p50_ms", "p50 ms", False),
    ("p99_ms", "p99 ms", False),
    ("p999_ms", "p99.9 ms", False),
    ("avg_us", "average us", False),
    ("p50_us", "p50 us", False),
    ("p99_us", "p99 us", False),
    ("p999_us", "p99.9 us", False),
    ("transactions_per_s", "transactions/s", True),
    ("commit_p50_us", "commit p50 us", False),
    ("commit_p99_us", "commit p99 us", False),
    ("write_us", "one durable write of 4 KiB to this disk, us", False),
    ("broker_cpu_s", "broker CPU s", False),
    ("broker_cpu_us_per_record", "broker CPU us/record", False),
    ("machine_cpu_us_per_record", "machine CPU but the client's, us/record", False),
    ("broker_cpu_ms_per_transaction", "broker CPU ms/transaction", False),
    ("machine_cpu_ms_per_transaction", "machine CPU but the client's, ms/transaction", False),
    ("member_wait_s", "a member's wait for its partition s", False),
    ("partition_wait_s", "time that nobody has a partition s", False),
    ("settled_s", "from the last join until each has one s", False),
    ("heartbeats_per_s", "heartbeats/s", True),
    ("broker_cores", "broker CPU, of one core", False),
    ("handshakes_per_core_s", "handshakes per second and core", True),
    ("handshakes_per_s", "handshakes/s", True),
    ("slowest_ms", "slowest answer ms", False),
    ("rebalances", "rebalances meanwhile", False),
    ("seconds", "seconds to accept and answer all", False),
    ("early_mib", "memory MiB after a tenth of the time", False),
    ("memory_mib", "memory MiB", False),
    ("growth_mib", "growth MiB", False),
    ("start_s", "start to first answer s", False),
    ("answered_s", "start to first answer s", False),
    ("first_ack_s", "start to first acknowledgement s", False),
    ("peak_mib", "peak memory MiB", False),
    ("errors", "errors the client logged", False),
]


def number(value):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _spread(values):
    middle = number(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({number(min(values))} - {number(max(values))})"


def title(figure):
    return next(shown for name, shown, _more_is_better in FIGURES if name == figure)


def medians(results):
    """(broker, case) -> figure -> the median over the rounds."""
    values = {}
    for result in results:
        of = values.setdefault((result["broker"], result["case"]), {})
        for figure, *_ in FIGURES:
            if figure in result:
                of.setdefault(figure, []).append(result[figure])
    return {key: {figure: statistics.median(found) for figure, found in of.items()} for key, of in values.items()}


def table(results, page_cache):
    """`results`: a list of {"broker", "round", "case", figures...}, all in one state of the page cache. Markdown."""
    lines = [
        f"| case (page cache {page_cache}) | figure | Apache Kafka | Parshall | Parshall : Kafka |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for name in dict.fromkeys(result["case"] for result in results):
        shown = name
        for figure, title, more_is_better in FIGURES:
            values = {
                kind: [r[figure] for r in results if r["case"] == name and r["broker"] == kind and figure in r]
                for kind in ("kafka", "parshall")
            }
            if not any(values.values()) or (figure == "errors" and not any(map(any, values.values()))):
                continue
            ratio = ""
            if all(values.values()) and statistics.median(values["kafka"]):
                ratio = f"{statistics.median(values['parshall']) / statistics.median(values['kafka']):.2f}"
                ratio += " (more is better)" if more_is_better else ""
            cells = [_spread(values[kind]) if values[kind] else "-" for kind in ("kafka", "parshall")]
            lines.append(f"| {shown} | {title} | {cells[0]} | {cells[1]} | {ratio} |")
            shown = ""
    return "\n".join(lines)
