"""Child processes that Ctrl-C reaches, however the tests themselves were started."""

import signal


def heed_interrupts() -> None:
    """Restore the default of SIGINT: programs started with nohup or & pass on that they ignore it.

    For `preexec_fn` of `subprocess.Popen`.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
