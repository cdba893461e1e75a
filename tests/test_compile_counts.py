"""How many programs XLA compiles in a fresh process, from a posterior's name to a result."""

import os
import subprocess
import sys

import pytest

MOST = {"recover": 2, "diagnose": 7}
"""Of them the model's check and its transforms are two; the rest are passes over draws, one for a shape. What was
added must be worth a fifth of a second to everybody."""

COUNT = """
import sys
import jax
compiled = []

def listen(event, seconds, **rest):
    if event.endswith("backend_compile_duration"):
        compiled.append(rest.get("fun_name"))

jax.monitoring.register_event_duration_secs_listener(listen)
import bayesrecon
release = bayesrecon.posteriors.from_posteriordb("kidiq-kidscore_momiq")
getattr(bayesrecon, sys.argv[1])(release)
print(len(compiled), *compiled)
"""


@pytest.mark.parametrize("verb", MOST)
def test_few_programs_are_compiled(verb, database):
    fresh = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run([sys.executable, "-c", COUNT, verb], capture_output=True, text=True, env=fresh)
    assert done.returncode == 0, done.stderr
    count, *names = done.stdout.split()
    assert 0 < int(count) <= MOST[verb], names
