"""What the explorer lets in, and what it does with what nobody should send."""

import base64
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from attnlaw.explorer import app as app_module
from attnlaw.explorer import create_app, serve
from attnlaw.explorer.security import LARGEST_FILE, decoded, file_name, temporary_file


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        (None, "the file must be sent as text, got 'NoneType'."),
        ("data:;base64,***", "the file must be sent in base 64"),
        ("A" * int(LARGEST_FILE * 1.4), "the file must be at most 64 MiB long"),
    ],
)
def test_what_is_no_file_is_refused(contents, sentence):
    with pytest.raises(ValueError, match=sentence):
        decoded(contents)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("table.npy", "table.npy"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\evil", "evil"),
        ("..", "file"),
        ("\x00.npy", "_.npy"),
        ("x" * 300, "x" * 80),
        (None, "None"),
    ],
)
def test_names_lose_their_folders_and_odd_characters(given, kept):
    assert file_name(given) == kept


def test_the_folder_is_removed_even_after_a_failure():
    content = decoded("data:;base64," + base64.b64encode(b"hello").decode())
    file = temporary_file(content, "file")
    path = file.__enter__()
    assert path.read_bytes() == b"hello"
    assert file.__exit__(RuntimeError, RuntimeError(), None) is False
    assert not path.parent.exists()


@pytest.fixture(scope="module")
def visitor():
    return create_app().server.test_client()


@pytest.fixture(scope="module")
def stranger():
    """Someone at an explorer that other machines reach."""
    return create_app("0.0.0.0", "a secret").server.test_client()


LOCAL = {"Host": "127.0.0.1:8050"}
UPDATE = "/_dash-update-component"


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:8050", 200),
        ("localhost:8050", 200),
        ("[::1]:8050", 200),
        ("LOCALHOST", 200),
        ("rebinding.example:8050", 403),
        ("127.0.0.1.rebinding.example", 403),
        ("10.0.0.7:8050", 403),
        ("[bad", 403),
        ("localhost.:8050", 403),
        ("evil@127.0.0.1:8050", 403),
        ("127.0.0.1/evil", 403),
        ("2130706433", 403),
        ("[::ffff:127.0.0.1]", 403),
        ("evil.example, 127.0.0.1", 403),
    ],
)
def test_only_names_of_this_machine_are_served(visitor, host, code):
    answer = visitor.get("/", headers={"Host": host})
    assert answer.status_code == code


@pytest.mark.parametrize(
    ("headers", "is_let_in"),
    [
        ({"Origin": "http://127.0.0.1:8050"}, True),
        ({}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": "http://elsewhere.example"}, False),
        ({"Origin": "http://127.0.0.1:9999"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": ""}, False),
        ({"Origin": "http://127.0.0.1:8050@elsewhere.example"}, False),
        ({"Origin": "http://127.0.0.1:8050, http://elsewhere.example"}, False),
        ({"Origin": "http://elsewhere.example", "X-Forwarded-Host": "elsewhere.example"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
    ],
)
def test_requests_of_other_sites_are_refused(visitor, headers, is_let_in):
    answer = visitor.post(UPDATE, json={"output": "x"}, headers={**LOCAL, **headers})
    assert (answer.status_code != 403) == is_let_in


QUESTION = {"values": {}, "theme": None, "narrow": None, "hold": None, "extra": None}


@pytest.mark.parametrize(
    ("question", "headers", "code"),
    [
        (QUESTION, {}, 200),
        (QUESTION, {"Origin": "http://elsewhere.example"}, 403),
        (QUESTION, {"Host": "rebinding.example"}, 403),
        ([], {}, 400),
        ({"values": {}}, {}, 400),
        (QUESTION | {"values": [1]}, {}, 400),
        (QUESTION | {"output": "x"}, {}, 400),
    ],
)
def test_moves_of_sliders_are_guarded_as_all_requests_are(visitor, question, headers, code):
    answer = visitor.post("/_moved/spectrum", json=question, headers={**LOCAL, **headers})
    assert answer.status_code == code
    if code == 200:
        sentence = "signal_norm must be a number from 0 to 4, got None."
        assert answer.get_json() == {"error": sentence}


@pytest.mark.parametrize("path", ["/", "/nowhere", UPDATE, "/assets/explorer.css"])
def test_every_answer_limits_what_it_may_do(visitor, path):
    with visitor.get(path, headers=LOCAL) as answer:
        headers = answer.headers
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    scripts = policy.partition("script-src")[2].partition(";")[0]
    assert "unsafe" not in scripts


def draw(**changes):
    """The body with which a browser asks for the first page."""
    body = {
        "output": "page.children",
        "outputs": {"id": "page", "property": "children"},
        "inputs": [
            {"id": "url", "property": "pathname", "value": "/spectrum"},
            {"id": "url", "property": "search", "value": ""},
            {"id": "visit", "property": "data", "value": None},
        ],
        "changedPropIds": ["url.pathname"],
        "state": [],
    }
    return {**body, **changes}


def test_a_sound_request_is_answered(visitor):
    answer = visitor.post(UPDATE, json=draw(), headers=LOCAL)
    assert answer.status_code == 200
    assert "spectrum-figure" in answer.text


CRAFTED = [
    b"", b"{", b"[]", b"null", b"7", b'"text"', b"[" * 100_000, b'{"output": 1}', b"\xff\xfe",
    json.dumps(draw(inputs=None)).encode(), json.dumps(draw(inputs=[1, 2])).encode(),
    json.dumps(draw(inputs=[{"id": {"a": []}, "property": 1}])).encode(),
    json.dumps(draw(output="no.such")).encode(), json.dumps(draw(outputs=7)).encode(),
    json.dumps(draw(outputs=[[], {}])).encode(), json.dumps(draw(state={"a": 1})).encode(),
    json.dumps(draw(changedPropIds="x")).encode(), json.dumps(draw(changedPropIds=[{}])).encode(),
    json.dumps(draw(inputs=[{"id": "url", "property": "pathname", "value": {"a": 1}}])).encode(),
    json.dumps({"output": "page.children"}).encode(),
]  # fmt: skip


@pytest.mark.parametrize("body", CRAFTED, ids=range(len(CRAFTED)))
def test_crafted_requests_get_a_sentence(visitor, body, caplog):
    answer = visitor.post(UPDATE, data=body, headers=LOCAL, content_type="application/json")
    assert answer.status_code == 400
    assert "Traceback" not in answer.text + caplog.text
    assert answer.text.count("\n") == 1
    assert answer.text.endswith(".\n")


def test_values_of_any_kind_in_every_callback_are_no_server_error(visitor):
    app_map = json.loads(visitor.get("/_dash-dependencies", headers=LOCAL).text)
    rng = np.random.default_rng(5)
    odd = [None, True, -1, 1e308, "", "x" * 50, [], [[]], {}, {"job": []}, {"a": {"b": 1}}, 2**70]
    n_asked = 0
    for entry in app_map:
        if entry.get("clientside_function"):
            continue
        for _ in range(6):
            parts = {
                name: [{**part, "value": odd[rng.integers(len(odd))]} for part in entry[name]]
                for name in ("inputs", "state")
            }
            outputs = [
                dict(
                    zip(("id", "property"), name.strip().split("@")[0].rsplit(".", 1), strict=True)
                )
                for name in entry["output"].strip(".").split("...")
            ]
            body = {
                "output": entry["output"],
                "outputs": outputs if entry["output"].startswith("..") else outputs[0],
                "changedPropIds": [f"{parts['inputs'][0]['id']}.{parts['inputs'][0]['property']}"],
                **parts,
            }
            answer = visitor.post(UPDATE, json=body, headers=LOCAL)
            assert answer.status_code in (200, 204, 400), answer.text
            n_asked += 1
    assert n_asked > 50


def test_large_requests_must_be_one_file(visitor):
    many = json.dumps(draw(state=[[]] * 500_000))
    answer = visitor.post(UPDATE, data=many, headers=LOCAL, content_type="application/json")
    assert answer.status_code == 400
    assert answer.text == "A request over 1048576 bytes must be one file.\n"


def test_beyond_loopback_a_token_is_asked_for(stranger):
    elsewhere = {"Host": "192.168.1.5:8050"}
    assert stranger.get("/", headers=elsewhere).status_code == 403
    assert stranger.get("/?token=guess", headers=elsewhere).status_code == 403
    assert stranger.post(UPDATE, json=draw(), headers=elsewhere).status_code == 403
    named = {**elsewhere, "Authorization": "token a secret"}
    assert stranger.get("/", headers=named).status_code == 200
    answer = stranger.get("/weights?token=a+secret", headers=elsewhere)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/weights")
    for path in ("//evil.example/", "/\\evil.example/"):
        given = {"PATH_INFO": path, "QUERY_STRING": "token=a+secret"}
        answer = stranger.get("/", headers=elsewhere, environ_overrides=given)
        assert re.match(r"/[%a-z]", answer.headers["Location"])  # on this server
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "secret" not in stranger.get("/", headers=named).text
    assert stranger.get("/", headers={"Host": "rebinding.example"}).status_code == 403


@contextmanager
def running(*options):
    """Run `attnlaw explore` in a process of its own; give the process, its address and folder."""
    command = [sys.executable, "-m", "attnlaw", "explore", "--no-browser", "--port", "0", *options]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TMPDIR": folder}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            try:
                address = re.search(r"http://\S+", process.stdout.readline())[0]
                yield process, address, Path(folder)
            finally:
                process.kill()


def get(address):
    begun = time.perf_counter()
    with urllib.request.urlopen(address, timeout=20) as answer:
        assert answer.status == 200
    return time.perf_counter() - begun


def test_idle_connections_do_not_stop_it():
    with running() as (_, address, _):
        port = urlsplit(address).port
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        for k, connection in enumerate(idle):
            if k % 2:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
        try:
            assert get(address) < 10
        finally:
            for connection in idle:
                connection.close()


def test_a_request_that_trickles_is_closed_in_time(monkeypatch):
    monkeypatch.setattr(app_module, "REQUEST_SECONDS", 1)
    server = serve("127.0.0.1", 0)
    server.adj.cleanup_interval = 1
    threading.Thread(target=server.run, daemon=True).start()
    try:
        with socket.create_connection(("127.0.0.1", server.effective_port)) as slow:
            slow.settimeout(0.3)
            slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            end = time.monotonic() + 20
            while time.monotonic() < end:  # a byte now and then kept it open for ever
                try:
                    slow.sendall(b"X")
                    if slow.recv(100) == b"":
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
            else:
                pytest.fail("the connection is still open")
    finally:
        server.close()


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_a_stopped_server_leaves_no_file(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((800, 10, 300)))
    content = base64.b64encode((tmp_path / "x.npy").read_bytes()).decode()
    with running() as (process, address, folder):
        entry = next(
            e
            for e in json.loads(urllib.request.urlopen(address + "_dash-dependencies").read())
            if any(part["id"] == "data-upload" for part in e["inputs"])
        )
        values = {"data-upload.contents": f"data:;base64,{content}", "data-seed.value": 0}
        values |= {"data-upload.filename": "x.npy", "data-example.value": "table"}
        parts = {
            name: [
                {**part, "value": values.get(f"{part['id']}.{part['property']}", "")}
                for part in entry[name]
            ]
            for name in ("inputs", "state")
        }
        outputs = [
            dict(zip(("id", "property"), name.split("@")[0].rsplit(".", 1), strict=True))
            for name in entry["output"].strip(".").split("...")
        ]
        body = {"output": entry["output"], "outputs": outputs, **parts}
        body["changedPropIds"] = ["data-upload.contents"]
        request = urllib.request.Request(
            address + UPDATE[1:], json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        assert urllib.request.urlopen(request, timeout=30).status == 200
        end = time.monotonic() + 30
        while not list(folder.glob("attnlaw-*/x.npy")):
            assert time.monotonic() < end, "the file was never there"
            time.sleep(0.01)
        process.terminate()
        process.wait(timeout=30)
        assert list(folder.glob("attnlaw-*")) == []
