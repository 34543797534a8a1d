"""kafka-features: the levels of features, what they may become, and what is refused."""

import re

from harness.case import case


@case("features")
def features(c):
    def show(line):
        """Without the epoch, which is an offset of the metadata, the reason of a refusal, and features that Parshall does not
        have, or has at one level only."""
        if line.startswith("Feature: "):
            found = re.match(r"(Feature: (?:group|metadata|transaction)\.version .*) Epoch: \d+$", line)
            return found and found[1]
        return re.sub(r"^(Could not [\w. ]+ to \d+|Could not disable [\w.]+)\. .*", r"\1", line)

    def tool(command, *levels):
        c.tool("FeatureCommand", command, *levels, show=show)

    def change(command, *levels):
        tool(command, *[argument for level in levels for argument in ("--feature", level)])

    tool("describe")
    tool("upgrade", "--dry-run", "--feature", "transaction.version=2")
    change("downgrade", "transaction.version=1", "group.version=0")
    tool("describe")
    # What is at a level already may be brought there by either.
    change("upgrade", "transaction.version=1")
    change("downgrade", "transaction.version=1")
    tool("downgrade", "--dry-run", "--feature", "transaction.version=0")
    change("disable", "transaction.version")
    for level in ("transaction.version=3", "metadata.version=20", "unknown.version=1"):
        change("upgrade", level)
    for level in ("transaction.version=2", "metadata.version=29", "metadata.version=3"):
        change("downgrade", level)
    change("disable", "unknown.version")
    tool("downgrade", "--unsafe", "--feature", "metadata.version=20")
    # All or nothing.
    change("upgrade", "transaction.version=2", "group.version=7")
    tool("upgrade", "--release-version", "4.0")
    tool("describe")
    tool("upgrade", "--release-version", "4.3")
    tool("describe", "--node-id", 1)
    c.tool("FeatureCommand", "version-mapping", "--release-version", "4.3", server=None)
    c.tool("FeatureCommand", "feature-dependencies", "--feature", "transaction.version=2", server=None)
