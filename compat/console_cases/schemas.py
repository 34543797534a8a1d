"""A schema registry: its subjects are found, and each version of a schema is shown."""

import contextlib
import http.server
import json
import struct
import threading
import urllib.parse

from common import console
from messages import Writer, new_topic, rows
from playwright.sync_api import expect

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "doc": "<b onclick='alert(1)'>an order</b>",
    "fields": [{"name": "id", "type": "long"}, {"name": "customer", "type": ["null", "string"], "default": None}],
}
MONEY = 'syntax = "proto3";\npackage shop;\n\nmessage Money {\n  string currency = 1;\n  int64 units = 2;\n}\n'
PAYMENT = 'syntax = "proto3";\npackage shop;\n\nimport "money.proto";\n\nmessage Payment {\n  Money amount = 1;\n}\n'


class Registry:
    """A schema registry with Confluent's REST interface, as far as it is read."""

    def __init__(self):
        self.subjects = {}
        self.is_gone = False

    def add(self, subject, schema, kind="AVRO", references=()):
        text = schema if isinstance(schema, str) else json.dumps(schema)
        versions = self.subjects.setdefault(subject, [])
        of = {"subject": subject, "version": len(versions) + 1, "id": 100 + sum(map(len, self.subjects.values()))}
        of |= {"schema": text, "references": list(references)} | ({} if kind == "AVRO" else {"schemaType": kind})
        versions.append(of)
        return of["id"]

    def answer(self, path):
        match [urllib.parse.unquote(part) for part in path.split("?")[0].strip("/").split("/")]:
            case ["subjects"]:
                return sorted(self.subjects)
            case ["subjects", subject, "versions"] if subject in self.subjects:
                return [of["version"] for of in self.subjects[subject]]
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                return self.subjects[subject][-1 if version == "latest" else int(version) - 1]
            case ["schemas", "ids", number]:
                found = [of for versions in self.subjects.values() for of in versions if str(of["id"]) == number]
                return found[0] if found else None
            case ["config"]:
                return {"compatibilityLevel": "BACKWARD"}
        return None


@contextlib.contextmanager
def registry():
    """Yields the registry and its URL."""
    served = Registry()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer = None if served.is_gone else served.answer(self.path)
            body = json.dumps(answer or {"error_code": 40401, "message": "not found"}).encode()
            self.send_response(200 if answer is not None else 500 if served.is_gone else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield served, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


def case_subjects_and_their_schemas_are_shown(c):
    with registry() as (served, url), console(c, "--schema-registry", url):
        served.add("orders-value", {**ORDER, "fields": ORDER["fields"][:1]})
        served.add("orders-value", ORDER)
        served.add("money", MONEY, "PROTOBUF")
        served.add(
            "payments-value", PAYMENT, "PROTOBUF", [{"name": "money.proto", "subject": "money", "version": 1}]
        )
        c.go("/schemas")
        rows = c.page.get_by_role("region", name="Subjects").locator("tbody tr")
        expect(rows).to_have_count(3)
        expect(rows.filter(has_text="payments-value")).to_contain_text("PROTOBUF")
        c.check("schemas")
        c.page.get_by_label("Find a subject").press_sequentially("orders")
        expect(rows).to_have_count(1)
        c.page.get_by_role("link", name="orders-value").click()
        expect(c.page.locator(".tiles")).to_contain_text("2 of 2")
        expect(c.page.get_by_role("region", name="Schema")).to_contain_text('"name": "customer"')
        expect(c.page.get_by_role("region", name="Schema")).to_contain_text("<b onclick='alert(1)'>")
        c.check("schema")
        c.page.get_by_label("Version").select_option("1")
        c.page.get_by_role("button", name="Show").click()
        expect(c.page.get_by_role("region", name="Schema")).not_to_contain_text("customer")
        c.go("/schemas/payments-value")
        c.page.get_by_role("region", name="References").get_by_role("link", name="money").click()
        expect(c.page.get_by_role("region", name="Schema")).to_contain_text("message Money")

        # One that fails is told; other pages go on.
        served.is_gone = True
        c.go("/schemas")
        expect(c.page.locator(".notice")).to_contain_text("has refused it (500)")
        c.check("schemas-gone")
        c.go("/topics")
        expect(c.page.locator("h1")).to_have_text("Topics")


def framed(schema_id, value):
    """As Confluent's serializers write a value."""
    return struct.pack(">bI", 0, schema_id) + value


def case_records_are_decoded_and_found_by_expressions(c):
    topic = new_topic(c.bootstrap)
    write = Writer(c.bootstrap, topic)
    with registry() as (served, url), console(c, "--schema-registry", url):
        order = served.add("orders-value", ORDER)
        served.add("money", MONEY, "PROTOBUF")
        references = [{"name": "money.proto", "subject": "money", "version": 1}]
        payment = served.add("payments-value", PAYMENT, "PROTOBUF", references)
        write(framed(order, b"\x0e\x02\x04c7"))
        write(framed(order, b"\x10\x00"))
        write(framed(payment, b"\x00\x0a\x07\x0a\x03EUR\x10\x05"))
        write(framed(999, b"\x0e"))
        write(b"\x82\xa2id\x09\xa8customer\xbb<i onclick='alert(1)'>c</i>")
        write("plain")
        write.flush()
        c.go(f"/topics/{topic}/messages?from=start")
        values = [value for *_, value in rows(c.page)]
        assert values[:3] == [
            '{"id": 7, "customer": "c7"}', '{"id": 8, "customer": null}',
            '{"amount": {"currency": "EUR", "units": 5}}',
        ], values
        assert "no schema 999" in values[3] and values[5] == "plain", values
        c.check("messages-decoded")

        c.page.get_by_label("Expression").fill('value.customer == "c7" && value.id < 7.5')
        c.page.get_by_role("button", name="Show", exact=True).click()
        assert [offset for _, offset, *_ in rows(c.page)] == [0]
        expect(c.page.locator("main")).to_contain_text("The expression could not be evaluated on 4 records")
        c.page.get_by_label("Expression").fill('value.customer == "c7')
        c.page.get_by_role("button", name="Show", exact=True).click()
        expect(c.page.get_by_role("alert")).to_contain_text("The expression is not right")
        expect(c.page.get_by_label("Expression")).to_have_value('value.customer == "c7')
        c.check("messages-expression-mistake")
        c.page.get_by_label("Expression").fill('value.customer.contains("onclick")')
        c.page.get_by_label("As", exact=True).select_option("messagepack")
        c.page.get_by_role("button", name="Show", exact=True).click()
        assert [offset for _, offset, *_ in rows(c.page)] == [4]

        c.go(f"/topics/{topic}/messages/0/0")
        expect(c.page.locator(".notice")).to_have_text(f"Decoded as Avro with schema {order}.")
        expect(c.page.get_by_role("region", name="value")).to_contain_text('"customer": "c7"')
        c.check("message-decoded")
        c.page.get_by_role("link", name="Protobuf").click()
        expect(c.page.locator(".notice", has_text="its schema is one of Avro")).to_be_visible()
        c.go(f"/topics/{topic}/messages/0/4?show=messagepack")
        expect(c.page.get_by_role("region", name="value")).to_contain_text("<i onclick='alert(1)'>c</i>")

        # The live tail decodes, too.
        c.go(f"/topics/{topic}/messages")
        c.page.get_by_role("button", name="Live tail").click()
        expect(c.page.locator("[data-follow-status]")).to_have_text("Waiting for new records.")
        write(framed(order, b"\x12\x02\x04c9"))
        write.flush()
        fresh = c.page.locator("#follow tbody tr")
        expect(fresh).to_contain_text('{"id": 9, "customer": "c9"}')
