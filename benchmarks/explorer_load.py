"""Twenty sessions move sliders at once for a minute: errors, and how long an answer takes.

Each session is a client that sends what a browser sends when a slider of the Spectrum page moves,
waits for the answer, checks it against the library, and moves on after a pause. Beside them, slow
connections send a letter of a header every second and never come to an end. All of it happens on
this machine.

    python benchmarks/explorer_load.py [--sessions 20] [--seconds 60] [--slow 0] [--pause 0.1]
"""

import argparse
import http.client
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

import numpy as np

import attnlaw as al
from attnlaw.explorer.app import PAGES
from attnlaw.explorer.frame import shown


def drawing_callback(port):
    """Return what the page asks for when a slider moves, as the browser learns it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/_dash-dependencies") as answer:
        known = json.load(answer)
    return next(c for c in known if "spectrum-figure.figure" in c["output"])


def request_body(callback, signal_norm):
    values = {c.identifier("spectrum"): c.default for c in PAGES["spectrum"].controls}
    values |= {"theme": "light", "narrow": False, "spectrum-signal_norm": signal_norm}
    parts = {
        name: [{**part, "value": values.get(part["id"])} for part in callback[name]]
        for name in ("inputs", "state")
    }
    names = callback["output"].strip(".").split("...")
    outputs = [dict(zip(("id", "property"), name.rsplit(".", 1), strict=True)) for name in names]
    changed = ["spectrum-signal_norm.value"]
    body = {"output": callback["output"], "outputs": outputs, "changedPropIds": changed, **parts}
    return json.dumps(body)


def expected_eigenvalue(signal_norm):
    model = al.PooledSequences(
        vocab_ratio=0.5, sample_ratio=0.4, signal_norm=signal_norm,
        correlation=al.prefix_correlation(20, 5), weights=al.mean_weights(20),
    )  # fmt: skip
    return shown(al.predict(model).top_eigenvalue)


def session(port, callback, seed, end, pause, times, errors):
    rng = np.random.default_rng(seed)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while time.monotonic() < end:
        norm = round(float(rng.uniform(0, 4)), 2)
        start = time.perf_counter()
        try:
            connection.request(
                "POST", "/_dash-update-component", request_body(callback, norm),
                {"Content-Type": "application/json"},
            )  # fmt: skip
            answer = connection.getresponse()
            body = answer.read()
            times.append(time.perf_counter() - start)
            if answer.status != 200 or f'"{expected_eigenvalue(norm)}"'.encode() not in body:
                errors.append(f"status {answer.status} at {norm}: {body[:100]!r}")
        except (OSError, http.client.HTTPException) as error:
            errors.append(repr(error))
            connection.close()
        time.sleep(pause)


def trickle(port, n_connections, end):
    """Keep so many requests open that never end; open again what the server closes."""
    connections = []
    while time.monotonic() < end:
        while len(connections) < n_connections:
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
            connections.append(connection)
        for connection in list(connections):
            try:
                connection.sendall(b"x")
            except OSError:
                connections.remove(connection)
        time.sleep(1)
    for connection in connections:
        connection.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--slow", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.1)
    chosen = parser.parse_args()
    command = [sys.executable, "-m", "attnlaw", "explore", "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
    callback = drawing_callback(port)
    times, errors = [], []
    end = time.monotonic() + chosen.seconds
    threads = [
        threading.Thread(
            target=session, args=(port, callback, seed, end, chosen.pause, times, errors)
        )
        for seed in range(chosen.sessions)
    ]
    slow = threading.Thread(target=trickle, args=(port, chosen.slow, end))
    for thread in (slow, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    server.terminate()
    server.wait()
    times.sort()
    print(
        f"{chosen.sessions} sessions beside {chosen.slow} slow connections, {chosen.seconds:g} s: "
        f"{len(times)} answers, "
        f"{len(errors)} errors, median {1000 * statistics.median(times):.0f} ms, "
        f"99 % within {1000 * times[int(0.99 * len(times))]:.0f} ms"
    )
    for error in errors[:5]:
        print(error)
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
