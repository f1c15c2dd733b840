import socket


def test_a_port_in_use_is_one_sentence(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = run("explore", "--no-browser", "--port", str(port))
    assert (code, out) == (2, "")
    assert err.startswith(f"attnlaw: port {port} of 127.0.0.1 cannot be used")
    assert err.count("\n") == 1


def test_only_an_address_beyond_this_machine_is_warned_of(run, monkeypatch):
    class Server:
        effective_port = 1234

        def run(self):
            pass

        def close(self):
            pass

    monkeypatch.setattr("attnlaw.explorer.serve", lambda host, port, token: Server())
    code, out, err = run("explore", "--no-browser", "--host", "0.0.0.0")
    assert code == 0
    assert "reachable from other machines" in err
    assert "http://0.0.0.0:1234/?token=" in out
    code, out, err = run("explore", "--no-browser", "--host", "0.0.0.0", "--token", "ours")
    assert "http://0.0.0.0:1234/?token=ours" in out
    code, out, err = run("explore", "--no-browser")
    assert (code, err) == (0, "")
    assert "http://127.0.0.1:1234/" in out
