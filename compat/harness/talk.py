"""A raw connection whose course is put into a transcript: what was answered, byte by byte, and when it was closed."""

import contextlib
import struct
import time

from . import wire
from .secured import FAILURE_DELAY_MS

# What takes longer than this has been delayed.
DELAYED_S = FAILURE_DELAY_MS / 2000
OPEN_S = 3 * FAILURE_DELAY_MS / 1000
ANSWER_S = 4


def when(took_s):
    return "after a delay" if took_s > DELAYED_S else "at once"


def hexadecimal(response):
    return response.hex() or "nothing"


class Talk:
    """Says how the connection ends when the block ends. After the broker has closed it nothing is sent any more."""

    def __init__(self, c, what, listener="SASL_PLAINTEXT"):
        c.say(f"-- {what}")
        self.c, self.over = c, False
        self.connection = c.connect(listener, timeout_s=ANSWER_S)
        self.sent_at = time.monotonic()

    def send(self, data):
        """Bytes as they are, without an answer that is waited for."""
        self.sent_at = time.monotonic()
        if not self.over:
            # Whether the broker closes it before all is sent is a matter of chance. Whoever waits for an answer sees it.
            with contextlib.suppress(wire.Closed):
                self.connection.send(data)

    def ask(self, what, body, show=hexadecimal, expected=True):
        """Sends a frame and says what was answered; `show` makes words of it. Returns the answer, None where there is none."""
        self.send(struct.pack(">i", len(body)) + body)
        return self.answer(what, show) if expected else None

    def answer(self, what, show=hexadecimal):
        """Says what is answered to what has been sent."""
        if self.over:
            return None
        try:
            response = self.connection.receive()
        except wire.Closed:
            self.over = True
            self.c.say(f"{what}: closed {when(time.monotonic() - self.sent_at)}, without an answer")
            return None
        except TimeoutError:
            self.c.say(f"{what}: no answer")
            return None
        took_s = time.monotonic() - self.sent_at
        self.c.say(f"{what}: {show(response)}{', after a delay' if took_s > DELAYED_S else ''}")
        return response

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        if not self.over:
            closed = self.connection.closed_within(OPEN_S)
            took_s = time.monotonic() - self.sent_at
            self.c.say("open" if closed is None else f"closed {when(took_s)}")
        self.connection.close()
