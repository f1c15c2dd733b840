"""Property tests are the same in every run; `--hypothesis-profile=explore` draws new ones."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("repeatable")
