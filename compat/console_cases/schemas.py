"""A schema registry: its subjects are found, and each version of a schema is shown."""

import contextlib
import http.server
import json
import threading
import urllib.parse

from common import console
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
