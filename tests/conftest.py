"""How many examples the property tests try."""

from hypothesis import HealthCheck, settings

# The first example of a kind compiles a kernel, which takes as long as it takes.
settings.register_profile("default", deadline=None, max_examples=50)
# For runs without compilation or with bounds checks, where each example costs more.
settings.register_profile(
    "small",
    deadline=None,
    max_examples=8,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")
