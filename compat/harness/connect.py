"""A worker of Kafka Connect, distributed mode: what it needs, and its REST interface."""

import contextlib
import json
import pathlib
import time
import urllib.error
import urllib.request

from . import install

MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"


def write_properties(path, bootstrap, group, port, **more):
    """Writes the properties of a worker with its REST interface at `port`; all workers of a group share its topics."""
    string = "org.apache.kafka.connect.storage.StringConverter"
    properties = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "key.converter": string,
        "value.converter": string,
        **{f"{what}.storage.topic": f"{group}-{what}" for what in ("offset", "config", "status")},
        **{f"{what}.storage.replication.factor": 1 for what in ("offset", "config", "status")},
        "offset.storage.partitions": 1,
        "status.storage.partitions": 1,
        "offset.flush.interval.ms": 1000,
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.path": install.connect_plugins(),
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    pathlib.Path(path).write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


def put_connector(port, name, config, seconds=60):
    """Creates a connector, waiting for the worker to start and to have joined its group."""
    body = json.dumps(config).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/connectors/{name}/config", body, {"Content-Type": "application/json"}, method="PUT"
    )
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            return json.load(urllib.request.urlopen(request, timeout=20))
        if time.monotonic() > end:
            raise RuntimeError(f"the worker did not take connector {name} within {seconds} s")
        time.sleep(0.2)
