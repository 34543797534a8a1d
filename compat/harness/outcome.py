"""The table of docs/reliability.md, out of the files that `cluster --json` wrote."""

import json
import math
import statistics

NAMES = {"parshall": "Parshall", "kafka": "Apache Kafka"}


def _percentile(values, percent):
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _seconds(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _pauses(results):
    """The longest pauses of the partitions under test, by label: "p50 / p99 / most"."""
    found = {}
    for result in results:
        for label, measured in result["pauses"].items():
            found.setdefault(label, []).extend(pause["probe"] for pause in measured)
    texts = [
        f"{label}: " + " / ".join(_seconds(value) for value in (statistics.median(own), _percentile(own, 99), max(own)))
        for label, own in found.items()
    ]
    return "<br>".join(texts) or "-"


def _sum(results, *names):
    return sum((result.get("account") or {}).get(name, 0) for result in results for name in names)


def table(paths):
    """Markdown. One line per case and broker; runs of the same case are added up."""
    results = [json.loads(line) for path in paths for line in open(path)]
    lines = [
        "| row | injected | broker | times | acknowledged | lost | twice, out of order | batches compared | client errors "
        "| longest pause, s: p50 / p99 / most | verdict |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |",
    ]
    for name in dict.fromkeys(result["case"] for result in results):
        for broker in ("parshall", "kafka"):
            own = [result for result in results if (result["case"], result["broker"]) == (name, broker)]
            if not own:
                continue
            wrong = sum(bool(result["wrong"]) for result in own)
            cells = [
                ", ".join(map(str, own[0]["rows"])),
                f"{own[0]['does']} (`{name}`)",
                NAMES[broker],
                f"{sum(result['cycles'] for result in own):,}",
                f"{_sum(own, 'acknowledged'):,}",
                f"{_sum(own, 'lost'):,}",
                f"{_sum(own, 'repeated', 'disorder'):,}",
                f"{sum(result.get('batches_compared', 0) for result in own):,}",
                f"{sum(result.get('client_failures', 0) for result in own):,}",
                _pauses(own),
                "passed" if not wrong else "failed",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
