"""The proxy that repeats requests: its client sees one answer to each of them, a node sees them more often."""

import socket
import struct
import threading
import time
import unittest

from harness import repeating_proxy, wire
from harness.control import Connection


class Node(threading.Thread):
    """Answers each request with its correlation id and how many it has got so far. `skew` makes its ids wrong."""

    def __init__(self, skew=0):
        super().__init__(daemon=True)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address, self.skew, self.got = self.listening.getsockname(), skew, []
        self.start()

    def run(self):
        while True:
            try:
                connection, _address = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        peer = wire.Connection.__new__(wire.Connection)
        peer.socket = connection
        try:
            while True:
                frame = peer.receive()
                self.got.append(repeating_proxy.request_of(frame)[:2])
                peer.frame(struct.pack(">ii", self.got[-1][1] + self.skew, len(self.got)))
        except (wire.Closed, OSError):
            connection.close()


class RepeatingProxy(unittest.TestCase):
    def begin(self, skew=0, **shares):
        self.node = Node(skew)
        self.addCleanup(self.node.listening.close)
        every = {"delayed": 0, "doubled": 0, "late": 0, **shares}
        self.proxy = repeating_proxy.Proxy([1], lambda _number: self.node.address, **every).begin()
        self.addCleanup(self.proxy.close)
        self.connection = Connection(("127.0.0.1", self.proxy.ports[1]), 5)
        self.addCleanup(self.connection.close)

    def ask(self, key, client="producer-writer", times=20):
        """The correlation ids of the answers to so many requests."""
        answers = [self.connection.ask(wire.header(key, 0, number, client)) for number in range(times)]
        return [struct.unpack_from(">i", answer)[0] for answer in answers]

    def test_a_request_that_is_doubled_has_one_answer(self):
        self.begin(doubled=1)
        self.assertEqual(self.ask(repeating_proxy.END_TXN), list(range(20)))
        self.assertEqual(self.node.got, [(26, number) for number in range(20) for _copy in range(2)])

    def test_requests_that_are_pipelined_have_their_answers_in_order(self):
        self.begin(doubled=0.5)
        for number in range(50):
            self.connection.frame(wire.header(repeating_proxy.PRODUCE, 0, number, "producer-writer"))
        answers = [struct.unpack_from(">i", self.connection.receive())[0] for _number in range(50)]
        self.assertEqual(answers, list(range(50)))
        self.assertGreater(len(self.node.got), 50)

    def test_a_late_copy_comes_on_another_connection(self):
        self.begin(late=1, late_s=0.2)
        self.assertEqual(self.ask(repeating_proxy.ADD_PARTITIONS_TO_TXN), list(range(20)))
        end = time.monotonic() + 5
        while len(self.node.got) < 40 and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(sorted(self.node.got), sorted((24, number) for number in list(range(20)) * 2))

    def test_other_requests_and_other_clients_are_left_alone(self):
        self.begin(doubled=1, late=1, late_s=0)
        self.ask(1), self.ask(repeating_proxy.END_TXN, client="consumer-1")
        time.sleep(0.2)
        self.assertEqual(len(self.node.got), 40)

    def test_an_answer_that_was_not_due_is_told(self):
        self.begin(skew=1)
        with self.assertRaises(wire.Closed):
            self.ask(repeating_proxy.END_TXN, times=1)
        self.assertEqual(len(self.proxy.wrong), 1)


if __name__ == "__main__":
    unittest.main()
