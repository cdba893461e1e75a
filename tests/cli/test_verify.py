"""`bayesrecon audit --statement` and `verify`: what a receiver can check of a file, and what code hosts are shown."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml

AGES = np.random.default_rng(5).normal(50, 10, 40).round(6)
PRIVATE = "name,age\n" + "".join(f"person{i},{age:.6f}\n" for i, age in enumerate(AGES))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("published")
    rng = np.random.default_rng(0)
    arrays = {"mu": rng.normal(size=(2, 50)), "b": rng.normal(size=(2, 50, 3))}
    np.savez(path / "fit.npz", **arrays)
    np.savez_compressed(path / "again.npz", **arrays)
    np.savez(path / "other.npz", **{**arrays, "mu": arrays["mu"] + 1e-9})
    return path


@pytest.fixture
def stated(folder, run):
    made = folder / "statement.json"
    run("audit", folder / "fit.npz", "--draws", "--statement", made, "--sarif", folder / "found.sarif")
    return made


def test_a_file_is_known_by_its_bytes_and_then_by_its_arrays(folder, stated, run):
    for name, code, words in (
        ("fit.npz", 0, "this is the file that was audited"),
        ("again.npz", 3, "contents equal, in other bytes: audit it again"),
        ("other.npz", 1, "this is not the file that was audited"),
    ):
        done = run("verify", folder / name, stated)
        assert done.code == code
        assert words in done.out
    whole = run("verify", folder / "fit.npz", stated).out
    assert "not tried: draws" in whole
    assert "anybody may have written it" in whole


def test_nothing_of_the_private_table_enters_but_the_verdict(tmp_path, run):
    (tmp_path / "private.csv").write_text(PRIVATE)
    np.savez(tmp_path / "fit.npz", mu=np.random.default_rng(1).normal(size=(2, 20)), who=AGES.reshape(2, 20))
    made, shown = tmp_path / "s.json", tmp_path / "f.sarif"
    options = ("--draws", "--data", tmp_path / "private.csv", "--statement", made, "--sarif", shown)
    assert run("audit", tmp_path / "fit.npz", *options).code in (0, 3)
    text = made.read_text()
    assert json.loads(text)["predicate"]["severity"] == "high"
    assert json.loads(text)["predicate"]["compared_with_private_data"]
    found = json.loads(shown.read_text())["runs"][0]["results"]
    assert "error" in [one["level"] for one in found]
    for hidden in ("private.csv", "age", "person", "who"):
        assert hidden not in json.dumps([one["message"] for one in found])
        assert not re.search(rf"\b{hidden}\b", text)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_a_signature_is_of_its_key_and_of_the_whole_statement(folder, stated, run, tmp_path):
    for name in ("mine", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    own = shutil.copy(stated, tmp_path / "statement.json")
    assert "it is not signed" in run("verify", folder / "fit.npz", own, "--key", tmp_path / "mine.pub").err
    sign = ["ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", tmp_path / "mine", own]
    subprocess.run(sign, check=True, capture_output=True)
    done = run("verify", folder / "fit.npz", own, "--key", tmp_path / "mine.pub")
    assert done.code == 0
    assert "signed by" in done.out
    assert run("verify", folder / "fit.npz", own, "--key", tmp_path / "other.pub").code == 1
    changed = json.loads(own.read_text())
    changed["predicate"]["verdict"] = "clean"
    own.write_text(json.dumps(changed))
    assert run("verify", folder / "fit.npz", own, "--key", tmp_path / "mine.pub").code == 1


def test_a_statement_is_data_of_somebody_else(folder, stated, run, tmp_path):
    made, path = json.loads(stated.read_text()), tmp_path / "s.json"
    for change in ({"subject": 3}, {"subject": [3]}, {"predicateType": "x"}, {"predicate": []}, {"_type": "y"}):
        path.write_text(json.dumps({**made, **change}))
        done = run("verify", folder / "fit.npz", path)
        assert (done.code, len(done.err.strip().splitlines())) == (2, 1)
    path.write_text(json.dumps({**made, "predicate": {"verdict": "\x1b[2Jclean", "auditor": 3, "findings": [1]}}))
    done = run("verify", folder / "fit.npz", path)
    assert (done.code, "\x1b" in done.out) == (0, False)
    assert run("verify", folder / "nothing.npz", path).code == 2


def test_the_hooks_of_pre_commit_refuse_what_they_say(folder, run, tmp_path):
    """As pre-commit calls them: entry, args, files."""
    text = (Path(__file__).parents[2] / ".pre-commit-hooks.yaml").read_text()
    hooks = {one["id"]: one for one in yaml.safe_load(text)}
    (tmp_path / "project.yaml").write_text("allow_incomplete: true\n")

    def call(name, *more):
        name, *words = hooks[name]["entry"].split() + (list(more) or hooks[name].get("args", []))
        assert name == "bayesrecon"
        return run(*words, folder / "fit.npz").code

    assert call("bayesrecon-audit") == 3  # it is open what the rows are
    assert call("bayesrecon-audit", "--records") == 1
    assert call("bayesrecon-policy", tmp_path / "project.yaml", "--draws") == 0
    assert call("bayesrecon-policy", "--draws") == 2  # the policy is missing


def test_a_policy_is_named_by_the_digest_of_its_file(folder, run, tmp_path):
    policy, made = tmp_path / "policy.json", tmp_path / "s.json"
    policy.write_bytes(b'{"allow_incomplete":\r\n true}\r\n')
    run("audit", folder / "fit.npz", "--draws", "--policy", policy, "--statement", made)
    stated = json.loads(made.read_text())["predicate"]["policy"]
    assert stated == {"sha256": hashlib.sha256(policy.read_bytes()).hexdigest(), "decision": "allowed"}
