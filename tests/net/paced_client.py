#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A client that asks at a steady pace, one connection a request, and tells what became of each.

Usage: paced_client.py ADDRESS PATH RATE SECONDS SOURCES [HEADER]...
  RATE     requests a second; SOURCES: comma-separated addresses to ask from, in turn
Ends early on SIGTERM. The last line of the output is JSON:
{"sent": N, "statuses": {"200": N, …, "error": N}, "bodies": {digest of a 200's body: N}, "errors": [text, …]}
"""

import hashlib
import json
import signal
import socket
import sys
import time

stop = False


def ask(address, source, request):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        connection.bind((source, 0))
        connection.connect((address, 80))
        connection.sendall(request)
        answer = bytearray()
        while piece := connection.recv(65536):
            answer += piece
    head, separator, body = bytes(answer).partition(b"\r\n\r\n")
    if not separator:
        raise OSError("the answer has no end of its head")
    return head.split(b" ", 2)[1].decode(), body


def main():
    global stop
    address, path, rate, seconds, sources, *headers = sys.argv[1:]
    rate, seconds, sources = float(rate), float(seconds), sources.split(",")

    def end(*_):
        global stop
        stop = True

    signal.signal(signal.SIGTERM, end)
    request = "".join(
        f"{line}\r\n"
        for line in (f"GET {path} HTTP/1.1", "Host: shop.example", "Connection: close", *headers, "")
    ).encode()
    statuses, bodies, errors = {}, {}, []
    begun = time.monotonic()
    number = 0
    while not stop and number < rate * seconds:
        time.sleep(max(0.0, begun + number / rate - time.monotonic()))
        try:
            status, body = ask(address, sources[number % len(sources)], request)
            if status == "200":
                digest = hashlib.sha256(body).hexdigest()
                bodies[digest] = bodies.get(digest, 0) + 1
        except OSError as error:
            status = "error"
            errors.append(f"{time.monotonic() - begun:.3f} s: {error}")
        statuses[status] = statuses.get(status, 0) + 1
        number += 1
    print(
        json.dumps({"sent": number, "statuses": statuses, "bodies": bodies, "errors": errors[:20]}),
        flush=True,
    )


if __name__ == "__main__":
    main()
