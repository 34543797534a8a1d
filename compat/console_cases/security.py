"""Users, access control lists and quotas, and what users of a secured cluster see who log in."""

import contextlib
import pathlib
import tempfile

from common import console, unique_name
from harness import broker, secured
from playwright.sync_api import expect

OWN = secured.Client("SASL_PLAINTEXT", secured.PLAIN, secured.ADMINISTRATOR)


def sign_in(c, user, password, mechanism=secured.PLAIN):
    c.page.get_by_label("User", exact=True).fill(user)
    c.page.get_by_label("Password", exact=True).fill(password)
    c.page.get_by_label("Mechanism").select_option(mechanism)
    c.page.get_by_role("button", name="Log in").click()


@contextlib.contextmanager
def with_users(c):
    """A broker of ours with an authorizer, and a console that connects to it as the administrator; the cases' page shows it."""
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        cluster = secured.Secured("parshall", home, {"offsets.topic.num.partitions": 4}, authorizer=True)
        with cluster.process:
            config = home / "console.properties"
            config.write_text(broker.properties(cluster.java(OWN)))
            c.bootstrap = cluster.address("SASL_PLAINTEXT")
            run = c.run
            # Whatever a case runs, the administrator does.
            c.run = lambda *arguments, stdin="": run(*arguments, "--command-config", config, stdin=stdin)
            with console(c, "--command-config", config):
                yield


def add_entry(c, principal, operation, name, **selected):
    c.go("/acls/new")
    c.page.get_by_label("Principal").fill(principal)
    c.page.get_by_label("READ", exact=True).set_checked(operation == "READ")
    c.page.get_by_label(operation, exact=True).check()
    c.page.get_by_label("Name", exact=True).fill(name)
    for label, value in selected.items():
        c.page.get_by_label(label, exact=True).select_option(value)
    c.page.get_by_role("button", name="Add them").click()
    expect(c.page.get_by_text("The access control list entries have been added.")).to_be_visible()


def row(c, region, text):
    return c.page.get_by_role("region", name=region, exact=True).get_by_role("row").filter(has_text=text)


def case_users_and_quotas_are_made_and_deleted(c):
    user = unique_name("carol")
    c.go("/users")
    c.page.get_by_role("link", name="Create a user").click()
    c.check("user-new")
    c.page.get_by_label("Name").fill(user)
    c.page.get_by_label("Password").fill("one")
    c.page.get_by_label("The same again").fill("two")
    c.page.get_by_role("button", name="Create the user").click()
    expect(c.page.get_by_role("alert")).to_contain_text("type the same password twice")
    expect(c.page.get_by_label("Password")).to_have_value("")
    for label in ("Password", "The same again"):
        c.page.get_by_label(label).fill("sesame")
    c.page.get_by_role("button", name="Create the user").click()
    expect(c.page.get_by_text("The user has been created.")).to_be_visible()
    assert "sesame" not in c.page.content() and "sesame" not in c.page.url
    expect(c.page.get_by_text("SCRAM-SHA-512, 4096 iterations")).to_be_visible()
    expect(c.page.get_by_text("The brokers have no authorizer: everybody may do everything.")).to_be_visible()
    c.check("user")

    c.page.get_by_role("link", name="Set quotas").click()
    c.page.get_by_label("Produced").fill("1048576")
    c.page.get_by_role("button", name="Set them").click()
    expect(row(c, "Quotas", user)).to_contain_text("produces 1.00 MiB/s")
    c.check("quotas")
    c.page.get_by_role("link", name=f"Change the quotas of user \"{user}\"").click()
    c.page.get_by_label("Produced").fill("")
    c.page.get_by_role("button", name="Set them").click()
    expect(c.page.get_by_text("The quotas have been removed.")).to_be_visible()
    expect(row(c, "Quotas", user)).to_have_count(0)

    c.go("/users")
    c.check("users")
    c.page.get_by_role("link", name=user).click()
    c.page.get_by_role("link", name="Delete the user").click()
    c.page.get_by_label("Type").fill(user)
    c.page.get_by_role("button", name="Delete the user").click()
    expect(c.page.get_by_text("The user has been deleted.")).to_be_visible()
    expect(c.page.get_by_role("link", name=user)).to_have_count(0)
    # Without an authorizer there are no lists.
    c.go("/acls")
    expect(c.page.get_by_text("the brokers have no authorizer")).to_be_visible()


def case_throttled_clients_are_shown(c):
    # Apache Kafka's brokers do not tell.
    if c.target == "kafka":
        return
    topic, client = c.topic(unique_name("orders")), unique_name("greedy")
    c.run("quota", "set", "--client-id", client, "producer_byte_rate=1000")
    c.go("/quotas")
    expect(row(c, "Throttled clients", client)).to_have_count(0)
    load = ("--num-records", 3, "--record-size", 10_000, "--throughput", -1)
    c.run("perf", "produce", "--topic", topic, *load, "--producer-props", f"client.id={client}", "batch.size=1")
    shown = row(c, "Throttled clients", client)
    expect(shown).to_contain_text("Produced", timeout=30_000)
    expect(shown).to_contain_text(f'client-id "{client}"')
    c.check("quotas-throttled")
    c.run("quota", "remove", "--client-id", client, "producer_byte_rate")


def case_a_user_sees_what_the_lists_allow(c):
    if c.target != "one":
        return
    with with_users(c):
        opened, secret = c.topic(unique_name("orders"), records=3), c.topic(unique_name("secret"), records=3)
        assert c.go().url.endswith("/login?cluster=local")
        sign_in(c, "alice", "wrong")
        expect(c.page.get_by_role("alert")).to_have_text("That is not a user of the cluster, or not the password.")
        c.check("login-of-a-user")
        sign_in(c, secured.ADMINISTRATOR, secured.PASSWORDS[secured.ADMINISTRATOR])
        expect(c.page.locator("h1")).to_have_text("local")
        add_entry(c, "User:alice", "READ", opened)
        expect(row(c, "Entries", "User:alice")).to_contain_text("READ")
        c.check("acls")

        c.go(f"/topics/{opened}/access")
        expect(c.page.get_by_role("heading", name="Who can read this topic?")).to_be_visible()
        expect(row(c, "Who can", "User:alice")).to_contain_text("yes")
        expect(row(c, "Who can", "User:alice")).to_contain_text(f"ALLOW User:alice READ on TOPIC {opened}")
        expect(row(c, "Who can", f"User:{secured.ADMINISTRATOR}")).to_contain_text("is one of super.users")
        expect(row(c, "Who can", "everybody else")).to_contain_text("no entry allows it")
        c.page.get_by_role("combobox", name="Who can").select_option("WRITE")
        expect(row(c, "Who can", "User:alice")).to_contain_text("no entry allows it")
        c.check("topic-access")
        c.page.get_by_role("link", name="User:alice").click()
        expect(row(c, "What it can do", opened)).to_contain_text("READ, DESCRIBE")
        c.check("user-with-entries")

        c.page.get_by_role("button", name="Log out").click()
        c.go()
        sign_in(c, "alice", secured.PASSWORDS["alice"])
        c.go("/topics")
        expect(c.page.get_by_role("link", name=opened)).to_be_visible()
        expect(c.page.get_by_role("link", name=secret)).to_have_count(0)
        assert c.go(f"/topics/{secret}").status == 404
        assert c.go(f"/topics/{secret}/messages").status == 404
        assert c.go("/lab").status == 403
        c.go(f"/topics/{opened}/messages")
        expect(c.page.get_by_text("record 2")).to_be_visible()
        # It may not write: the form says so.
        c.go(f"/topics/{opened}/messages/new")
        c.page.get_by_label("Value", exact=True).fill("x")
        c.page.get_by_role("button", name="Write the record").click()
        expect(c.page.locator("main")).to_contain_text("AUTHORIZATION_FAILED")
        # What takes a right on the cluster says so in a line.
        for path in ("/users", "/acls", "/quotas"):
            c.go(path)
            expect(c.page.locator(".notice")).to_contain_text("an access control list has to allow it")
        c.check("denied")
        assert c.page.request.get(f"{c.cluster.replace('/clusters', '/api/v1/clusters')}/acls").status == 403


def case_an_entry_is_removed_and_counts_no_longer(c):
    if c.target != "one":
        return
    with with_users(c):
        topic = c.topic(unique_name("orders"))
        c.go()
        sign_in(c, secured.ADMINISTRATOR, secured.PASSWORDS[secured.ADMINISTRATOR])
        expect(c.page.locator("h1")).to_have_text("local")
        add_entry(c, "User:bob", "WRITE", topic[:6], **{"The name is": "PREFIXED"})
        c.page.get_by_role("link", name=f"Remove WRITE of User:bob on {topic[:6]}").click()
        button = c.page.get_by_role("button", name="Remove it")
        expect(button).to_be_disabled()
        c.check("acl-remove")
        c.page.get_by_label("Type").fill("User:bob")
        button.click()
        expect(c.page.get_by_text("The access control list entry has been removed.")).to_be_visible()
        expect(row(c, "Entries", "User:bob")).to_have_count(0)
