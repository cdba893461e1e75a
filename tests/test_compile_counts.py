"""How many programs XLA compiles in a fresh process, from a posterior's name to results."""

import os
import subprocess
import sys

import pytest

MOST = {"recover": 3, "diagnose": 5}
"""The second after the first. Of all of them the model's check and its transforms are two; the rest are passes over
draws, one for a shape, and the density beyond the outermost draws. What was added must be worth a fifth of a second to
everybody."""

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
for verb in sys.argv[1:]:
    getattr(bayesrecon, verb)(release)
    print(verb, *compiled)
    compiled.clear()
"""


@pytest.mark.slow
def test_few_programs_are_compiled(database):
    fresh = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    done = subprocess.run([sys.executable, "-c", COUNT, *MOST], capture_output=True, text=True, env=fresh)
    assert done.returncode == 0, done.stderr
    compiled = {verb: names for verb, *names in map(str.split, done.stdout.splitlines())}
    assert compiled["recover"]
    assert {verb: names for verb, names in compiled.items() if len(names) > MOST[verb]} == {}
