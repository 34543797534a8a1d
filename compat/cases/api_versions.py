"""kafka-broker-api-versions: which APIs are offered, in which versions."""

import re

from harness.case import case


@case("api-versions")
def api_versions(c):
    c.tool(
        "BrokerApiVersionsCommand",
        show=lambda line: re.sub(r",$", "", line) if re.match(r"\w+\(\d+\): ", line) else None,
    )
