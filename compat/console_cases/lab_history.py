"""The history of a suite, over runs that nobody has measured."""

import json
import pathlib
import tempfile

from common import console
from playwright.sync_api import expect

DAYS = {1: (1000, 4.0), 2: (1004, 4.01), 3: (1500, 4.0), 4: (1100, 6.0)}


def write_run(directory, day, rate, broker_cpu, cores=2):
    """A run of two cases, each three times: one with so many records per second, one that is saturated."""
    version = f"0.1.0 ({day:x}abcdef01234 2026-11-{day:02})"
    host = {"os": "Linux", "kernel": "6.1", "cpu": "a processor", "cores": cores, "memory_bytes": 1 << 30, "virtualized": None}
    run = {
        "schema": 1, "name": "quick", "title": "Quick look", "description": "", "scenario": "", "scale": None,
        "started": f"2026-11-{day:02}T10:00:00.000Z", "command": "parshall lab run quick", "program_version": version,
        "program_checksum": f"{day:08x}", "host": host, "preflight": {"disk": None, "network": []}, "charts": [],
        "targets": [{"label": "parshall", "version": f"parshall {version}", "brokers": 1, "is_local": True}],
    }
    (directory / "cases").mkdir(parents=True)
    (directory / "report.html").write_text("<!DOCTYPE html>")
    (directory / "run.json").write_text(json.dumps(run))
    for number, (case, is_saturated) in enumerate({"Q4": False, "Q<1>": True}.items(), 1):
        for repetition in (1, 2, 3):
            by = 1 + 0.04 * (repetition - 2)
            latency = {name: int(1000 * by) for name in ("p50_us", "p95_us", "p99_us", "p99_9_us", "p99_99_us", "max_us")}
            measured = {
                "seconds": 1.0, "consumed": None, "end_to_end": None, "failures": {}, "series": [],
                "produced": {"records": 1000, "bytes": 1000, "records_per_s": rate * by, "mib_per_s": 1.0, "requests": 10},
                "latency": {"counts_from": "due", "mean_us": 500.0, "distribution": [], **latency},
                "cost": {"client_cpu_s": 1.0, "brokers": [], "others_cpu_s": 0.0, "cores": 2,
                         "broker_cpu_s_per_million": broker_cpu * by, "broker_cpu_s_per_gib": None, "client_cpu_s_per_million": None},
                "verdict": {"limit": "broker_cpu", "evidence": "", "is_saturated": is_saturated, "warnings": []},
            }
            result = {
                "schema": 1, "number": number, "id": case, "group": case, "title": "1 KiB records", "axes": {}, "parameters": {},
                "target": "parshall", "repetition": repetition, "started": "", "reproduce": "", "published": None,
                "outcome": {"measured": measured},
            }
            (directory / "cases" / f"{number:04}.{repetition}.json").write_text(json.dumps(result))


def case_a_history_shows_what_is_better_and_what_is_noise(c):
    if c.target != "one":
        return
    with tempfile.TemporaryDirectory() as home:
        results = pathlib.Path(home) / "results"
        for day, (rate, broker_cpu) in DAYS.items():
            write_run(results / f"quick-202611{day:02}-100000", day, rate, broker_cpu)
        write_run(results / "quick-20261031-100000", 0, 9000, 4.0, cores=64)
        with console(c, "--console-lab-dir", results):
            c.go("/lab")
            c.page.get_by_role("link", name="History of quick").click()
            expect(c.page.locator("h1")).to_have_text("History of quick")
            rows = c.page.get_by_role("region", name="Conclusions").locator("tbody tr")
            expect(rows).to_have_count(2)
            expect(rows.first).to_contain_text("worse: records/s -27 %")
            expect(rows.first).to_contain_text("better: records/s +10 %, but broker CPU +50 %")
            expect(rows.nth(1)).to_contain_text("Q<1>")
            # Three figures, and no latency of saturated runs.
            expect(c.page.locator("figure svg[role=img]")).to_have_count(5)
            expect(c.page.get_by_role("img", name="Throughput").first.locator("path.mark")).to_have_count(4)
            expect(c.page.get_by_role("region", name="Runs").locator("tbody tr")).to_have_count(4)
            expect(c.page.get_by_text("another host: 64 x a processor")).to_be_visible()
            c.check("lab-history")
            c.page.get_by_role("link", name="quick-20261104-100000").click()
            expect(c.page.locator("h1")).to_have_text("quick-20261104-100000")
            c.go("/lab/history/..%2fetc")
            expect(c.page.get_by_role("alert")).to_contain_text("has measured anything")
