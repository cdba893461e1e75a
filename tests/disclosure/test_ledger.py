"""The ledger: whose worths add up, what is left, and files that nobody can edit, cut short or set back unnoticed."""

import errno
import json
import re
import shutil
import stat
import subprocess
import sys
import threading
import types
from dataclasses import replace

import numpy as np
import pytest

from bayesrecon import files
from bayesrecon.disclosure.sanitising import ledger_file as ledger_module
from bayesrecon.disclosure.sanitising.ledger import Asked, Guarantee, Release, Whose, opened_ledger
from bayesrecon.disclosure.sanitising.secret import hash_of_data, hash_of_draws, keyed
from bayesrecon.errors import BayesreconError
from bayesrecon.model import PseudoData

TILT = PseudoData(np.array([0.5, -0.25]), {"y": np.array([1.0, 2.0])})
ANYBODY = Whose()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "book" / "ledger.json"


def release(data, worth=100.0, model="model"):
    return Release(hash_of_data(data), hash_of_data({"y": data["y"]}), model, model, worth)


def table(number):
    """The same people, with a column that no model uses."""
    return {"y": [1.0, 2.0, 3.0], "dummy": [float(number)] * 3}


def enter(path, one, whose=ANYBODY, budget=None):
    with opened_ledger(path) as book:
        book.enter(whose, one, budget, TILT, 8)


def spent(path, whose=ANYBODY):
    with opened_ledger(path) as book:
        return book.account(whose).spent


def refusal(path):
    with pytest.raises(BayesreconError) as caught, opened_ledger(path):
        pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_sixteen_tables_with_dummy_columns_spend_one_budget(path):
    allowed = 0
    for number in range(16):
        try:
            enter(path, release(table(number)), budget=500.0)
            allowed += 1
        except BayesreconError:
            assert spent(path) == 500
    assert allowed == 5


VARIANTS = {
    "another unit": {"y": [1000.0, 2000.0, 3000.0]},
    "rounded": {"y": [1.0, 2.0, 3.0001]},
    "a record less": {"y": [1.0, 2.0]},
    "a record twice": {"y": [1.0, 2.0, 3.0, 3.0]},
    "an id": {"y": [1.0, 2.0, 3.0], "id": ["a", "b", "c"]},
    "another type": {"y": np.array([1.1, 2.0, 3.0], "f4")},
    "other people, who do not say so": {"y": [7.0, 8.0, 9.0]},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_change_of_a_table_opens_an_account(path, variant):
    enter(path, release({"y": [1.1, 2.0, 3.0]}))
    with pytest.raises(BayesreconError, match="does not allow"):
        enter(path, release(VARIANTS[variant]))
    assert spent(path) == 100


def test_nobody_is_told_of_more_than_the_budget(path):
    """Releases at random: for every person, the worths of all releases that may be about them are within the budget."""
    rng = np.random.default_rng(0)
    parts = [None, "jan", "feb", "mar"]
    told = dict.fromkeys(parts, 0.0)
    for number in range(80):
        part, worth = parts[rng.integers(4)], float(rng.integers(100, 400))
        try:
            enter(path, release(table(number), worth), Whose("default", part), budget=3000.0)
        except BayesreconError:
            continue
        for person in parts if part is None else [part]:
            told[person] += worth
        with opened_ledger(path) as book:
            assert book.account(ANYBODY).spent == max(told.values())
            assert book.account(Whose(part="feb")).left == 3000 - told["feb"]
            assert book.account(ANYBODY).left == 3000 - max(told.values())
    assert 2500 < max(told.values()) <= 3000
    assert min(told.values()) > 1000


def test_the_same_release_adds_nothing_and_keeps_its_tilt(path):
    enter(path, release(table(0)))
    with opened_ledger(path) as book:
        kept, times = book.tilt(release(table(0)))
        np.testing.assert_array_equal(kept.weights, TILT.weights)
        np.testing.assert_array_equal(kept.records["y"], TILT.records["y"])
        assert times == 8
        assert book.covers(ANYBODY, release(table(0)))
        assert book.covers(Whose(part="jan"), release(table(0)))  # it was counted for everybody
        assert book.account(ANYBODY, release(table(0))).spent == 100
        for other in (release(table(1)), release(table(0), 150.0), release(table(0), model="other")):
            assert book.tilt(other) is None
            assert not book.covers(ANYBODY, other)
            assert book.secret(other) != book.secret(release(table(0)))


def test_a_part_does_not_answer_for_another(path):
    jan, feb = Whose(part="jan"), Whose(part="feb")
    enter(path, release(table(0)), jan)
    with opened_ledger(path) as book:
        assert not book.covers(feb, release(table(0)))
        assert not book.covers(ANYBODY, release(table(0)))
        assert book.tilt(release(table(0))) is not None  # nearly the same tilt would reveal both
        assert book.also_in(feb, release(table(1))) == ["account default, part jan"]
        assert book.also_in(Whose("others"), release(table(1))) == ["account default, part jan"]
        assert book.also_in(jan, release(table(1))) == book.also_in(ANYBODY, release(table(1))) == []
        assert book.account(ANYBODY, release(table(0))).spent == 200


def test_what_a_refusal_names_is_within_the_budget(path):
    """Budgets, and a worth of what is left, with parts and without. No worth that was not tried is named."""
    rng = np.random.default_rng(1)
    named = 0
    for number in range(40):
        whose = Whose(part=[None, "jan", "feb"][rng.integers(3)])
        one = release(table(number), float(rng.uniform(100, 900)))
        with opened_ledger(path) as book:
            budget = book.account(whose).spent + float(rng.uniform(0, 900))
            asked = Asked(book, whose, one, budget, False, "draws")
            try:
                asked.check(lambda worth: True)
            except BayesreconError as error:
                with pytest.raises(BayesreconError) as untried:
                    asked.check(lambda worth: False)
                assert "worth=" not in str(untried.value)
                needed = float(re.search(r"state budget=(\d+)", str(error))[1])
                assert book.account(whose, one, needed).left >= 0 > book.account(whose, one, needed - 1).left
                worth = re.search(r"use worth=(\d+)", str(error))
                if worth is None:
                    continue
                named += 1
                one = replace(one, worth=float(worth[1]))
                assert asked.conditions(one.worth) == ""
            book.enter(whose, one, budget, TILT, 8)
    assert named > 5


def test_names_that_look_alike_are_one_account(path):
    enter(path, release(table(0)), Whose("Ward A", "2026-01"))
    with opened_ledger(path) as book:
        assert book.account(Whose(" ward  a ", "2026-01 ")).spent == 100
        assert list(book.accounts) == ["ward a"]
    for wrong in ("", "  ", "a" * 101, "a\x1bb", 7):
        with pytest.raises(BayesreconError, match="printable characters"):
            Whose(wrong)


def test_both_files_are_for_their_owner_alone(path):
    enter(path, release(table(0)))
    key = path.with_name("ledger.json.key")
    assert [stat.S_IMODE(file.stat().st_mode) for file in (path, key)] == [0o600, 0o600]
    for file in (path, key):
        file.chmod(0o644)
        assert "other users can read" in refusal(path)
        file.chmod(0o600)
    enter(path, release(table(0)))
    assert [stat.S_IMODE(file.stat().st_mode) for file in (path, key)] == [0o600, 0o600]


def strings(value):
    if isinstance(value, dict):
        return {found for one in value.values() for found in strings(one)}
    if isinstance(value, list):
        return {found for one in value for found in strings(one)}
    return {value} if isinstance(value, str) else set()


def test_nothing_in_the_ledger_tests_a_guess_without_the_key(tmp_path):
    """Every hash in it is another one under another key, and the key is not in it."""
    found = []
    for name in ("one", "two"):
        path = tmp_path / name / "ledger.json"
        enter(path, release(table(0)))
        text = path.read_text()
        assert json.loads(path.with_name("ledger.json.key").read_text())["key"] not in text
        found.append({value for value in strings(json.loads(text)) if re.fullmatch("[0-9a-f]{16,}", value)})
    assert len(found[0]) == len(found[1]) == 3  # of the tilt, of the fields, and the seal
    assert not found[0] & found[1]
    assert not found[0] & {hash_of_data(table(0)), hash_of_data({"y": table(0)["y"]}), hash_of_draws(np.ones((3, 1)))}


def lowered(text):
    return text.replace('"worth": 100.0', '"worth": 1.0')


DAMAGE = {
    "a worth": lowered,
    "a budget": lambda text: text.replace('"budget": 100.0', '"budget": 900.0'),
    "no accounts": lambda text: json.dumps(json.loads(text) | {"accounts": {}}),
    "no tilts": lambda text: text.replace('"part": null', '"part": "jan"'),
    "a count": lambda text: text.replace('"writes": 1', '"writes": 2'),
    "no seal": lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != "seal"}),
    "a seal of another type": lambda text: json.dumps(json.loads(text) | {"seal": 7}),
    "half of it": lambda text: text[: len(text) // 2],
    "all but a byte": lambda text: text[:-1],
    "nothing": lambda text: "",
    "another document": lambda text: "[1, 2]",
    "deep": lambda text: "[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_edited_or_truncated_ledger_is_refused_in_a_line(path, damage):
    enter(path, release(table(0)))
    before = path.read_text()
    path.write_text(DAMAGE[damage](before))
    assert re.search("was changed since|not a ledger", refusal(path))
    path.write_text(before)
    assert spent(path) == 100


def test_a_newer_format_asks_for_an_update(path):
    enter(path, release(table(0)))
    path.write_text(path.read_text().replace('"bayesrecon_ledger": 4', '"bayesrecon_ledger": 5'))
    assert "update" in refusal(path)


def test_a_copy_of_before_is_refused(path):
    """Of either file; and a ledger or a key that is missing is not a new one."""
    key, copies = path.with_name("ledger.json.key"), {}
    for number in range(3):
        enter(path, release(table(number)), budget=1000.0)
        copies[number] = [(file, file.read_bytes()) for file in (path, key)]
    for file, content in copies[0]:
        file.write_bytes(content)
        assert "older copy" in refusal(path)
        for newest, kept in copies[2]:
            newest.write_bytes(kept)
    for file in (path, key):
        file.rename(path.with_name("away"))
        assert "is missing" in refusal(path)
        path.with_name("away").rename(file)
    assert spent(path) == 300


def test_a_process_that_is_killed_loses_nothing(path, monkeypatch):
    """Between any two writes, again and again: a release that was entered stays, and the ledger can be used."""
    key = path.with_name("ledger.json.key")
    written = []

    def killed_at(number):
        written.clear()

        def write(at, how):
            if len(written) == number:
                raise KeyboardInterrupt
            written.append(at)
            files.write_whole(at, how)

        monkeypatch.setattr(ledger_module, "write_whole", write)

    # A release writes the ledger and the key, and the key before if it is missing or was left behind.
    for number, writes, after in (
        (0, 0, 0),
        (1, 1, 0),
        (2, 1, 100),
        (3, 0, 100),
        (4, 1, 100),
        (5, 1, 200),
        (6, 2, 300),
    ):
        killed_at(writes)
        with pytest.raises(KeyboardInterrupt):
            enter(path, release(table(number)), budget=1000.0)
        monkeypatch.undo()
        assert spent(path) == after
    enter(path, release(table(6)))
    enter(path, release(table(7)))
    assert spent(path) == 400
    assert json.loads(key.read_text())["writes"] == json.loads(path.read_text())["writes"]


def test_a_full_disk_loses_nothing(path, monkeypatch):
    enter(path, release(table(0)), budget=1000.0)
    before = path.read_bytes()

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        enter(path, release(table(1)))
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "ledger.json",
        "ledger.json.key",
        "ledger.json.lock",
    ]
    enter(path, release(table(1)))
    assert spent(path) == 200


def test_releases_at_once_do_not_both_spend_the_rest(path):
    enter(path, release(table(0)), budget=300.0)
    allowed, start = [], threading.Barrier(8)

    def run(number):
        start.wait()
        try:
            enter(path, release(table(number)))
            allowed.append(number)
        except BayesreconError:
            pass

    runs = [threading.Thread(target=run, args=(number,)) for number in range(1, 9)]
    for one in runs:
        one.start()
    for one in runs:
        one.join()
    assert len(allowed) == 2
    assert spent(path) == 300


PROGRAM = """
import sys
from pathlib import Path
from bayesrecon.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_of_another_process_ends_with_it(tmp_path):
    lock, entered = tmp_path / "lock", threading.Event()

    def wait():
        with files.locked(lock):
            entered.set()

    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not entered.wait(0.1)
        other.kill()
        assert entered.wait(10)
        waiting.join()


def test_windows_waits_for_a_lock(tmp_path, monkeypatch):
    """There `locking` gives up after ten seconds, and is called again."""
    calls = []

    def locking(handle, mode, size):
        calls.append((mode, size))
        if len(calls) < 3:
            raise OSError(errno.EDEADLK, "in use")

    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(LK_LOCK=1, locking=locking))
    monkeypatch.setattr(files, "sys", types.SimpleNamespace(platform="win32"))
    with files.locked(tmp_path / "lock"):
        assert calls == [(1, 1)] * 3


def test_a_link_stays_a_link_and_has_one_ledger(path, tmp_path):
    enter(path, release(table(0)), budget=1000.0)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    enter(link, release(table(1)))
    assert link.is_symlink()
    assert spent(path) == spent(link) == 200


def test_a_look_leaves_no_trace(path):
    with opened_ledger(path, only_read=True) as book:
        assert book.is_new
        assert book.account(ANYBODY, release(table(0))).spent == 100
    assert not path.parent.exists()


@pytest.fixture
def earlier(path):
    """A ledger of version 0.2: the key in it, and an account for each table."""
    tilt = {"records": {"y": [1.0, 2.0]}, "weights": [0.5, -0.25], "times": 8}
    accounts = {
        hash_of_data({"y": table(0)["y"]}): {"budget": 250, "tilts": [tilt | {"model": "model", "worth": 100}]},
        "releases without their data": {"budget": 300.0, "tilts": [tilt | {"model": "model draws", "worth": 300.0}]},
    }
    content = {"bayesrecon_ledger": 1, "key": bytes(range(32)).hex(), "accounts": accounts}
    path.parent.mkdir()
    path.write_text(json.dumps(content))
    path.chmod(0o600)
    return content


def test_an_earlier_ledger_is_read_as_one_account(path, earlier):
    one = release({"y": table(0)["y"]})
    with opened_ledger(path, only_read=True) as book:
        account = book.account(ANYBODY)
        assert (account.spent, account.budget) == (400, 300)
        assert book.account(ANYBODY, release(table(1))).left < 0
        assert book.covers(ANYBODY, one)
        assert book.secret(one) == keyed(bytes(range(32)), one.data, "model", "100.0")
    assert json.loads(path.read_text()) == earlier
    enter(path, release(table(1)), budget=500.0)
    assert earlier["key"] not in path.read_text()
    assert not any(name in path.read_text() for name in earlier["accounts"])
    with opened_ledger(path) as book:
        assert book.account(ANYBODY).spent == 500
        np.testing.assert_array_equal(book.tilt(one)[0].weights, TILT.weights)
    path.write_text(json.dumps(earlier))  # it cannot be brought back
    assert "older copy" in refusal(path)


def test_an_earlier_ledger_that_is_damaged_is_refused(path, earlier):
    (account, _) = earlier["accounts"]
    for worth in (-1, "much", None, float("nan")):
        earlier["accounts"][account]["tilts"][0]["worth"] = worth
        path.write_text(json.dumps(earlier))
        assert "not a ledger" in refusal(path)
    path.write_text(json.dumps({"bayesrecon_ledger": 1, "key": "00", "accounts": {}}))
    assert "not a ledger" in refusal(path)
    path.write_text(json.dumps({"bayesrecon_ledger": 1, "key": "00" * 32, "accounts": {}}))
    assert "not drawn at random" in refusal(path)


def test_a_copy_cannot_spend_the_budget_again(path, tmp_path):
    """With or without its key, while the original is there. A ledger that was moved goes on."""
    enter(path, release(table(0)), budget=200.0)
    copy, key = tmp_path / "copy.json", path.with_name("ledger.json.key")
    shutil.copy(path, copy)
    assert "its key" in refusal(copy)
    shutil.copy(key, tmp_path / "copy.json.key")
    assert f"is a copy of {path}" in refusal(copy)
    enter(path, release(table(1)))
    path.parent.rename(tmp_path / "moved")
    moved = tmp_path / "moved" / "ledger.json"
    assert spent(moved) == 200
    with pytest.raises(BayesreconError, match="does not allow"):
        enter(moved, release(table(2)))
    enter(moved, release(table(2)), budget=300.0)


def test_a_lock_that_is_removed_lets_nobody_write(path):
    enter(path, release(table(0)), budget=1000.0)
    with opened_ledger(path) as book:
        path.with_name("ledger.json.lock").unlink()
        enter(path, release(table(1)))
        with pytest.raises(BayesreconError, match="lock file was removed"):
            book.enter(ANYBODY, release(table(2)), None, TILT, 8)
    assert spent(path) == 200


def file(name, *rows):
    return {"name": name, "sha256": name, "released": [{"rows": list(rows), "grams": []}], "table": None}


def publish(path, name, whose=ANYBODY):
    with opened_ledger(path) as book:
        ((entry, new),) = book.publish(whose, [file(name)])
        return entry["id"], new


def entries(path, account="default"):
    with opened_ledger(path, only_read=True) as book:
        return [one["name"] for one in book.published(account)]


def test_what_was_published_is_entered_once_and_never_removed(path):
    assert publish(path, "a") == ("1", True)
    assert publish(path, "a") == ("1", False)
    assert publish(path, "a", Whose(part="2026")) == ("2", True)
    assert publish(path, "b", Whose(part="2026")) == ("3", True)
    assert publish(path, "b") == ("3", False)
    with opened_ledger(path) as book:
        assert book.withdraw("default", "1")["withdrawn"]
        with pytest.raises(BayesreconError, match="no entry 4; its entries: 1, 2, 3"):
            book.withdraw("default", "4")
    assert entries(path) == ["a", "a", "b"]


WRITER = """
import sys
from pathlib import Path
from bayesrecon.disclosure.sanitising.ledger import Whose, opened_ledger
path, mine, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for i in range(count):
    with opened_ledger(path) as book:
        book.publish(Whose(), [{"name": f"{mine}{i}", "sha256": f"{mine}{i}", "released": [], "table": None}])
    print(i, flush=True)
"""


@pytest.mark.slow  # three processes begin
def test_processes_at_once_lose_no_entry_and_one_that_is_killed_spoils_none(path):
    def writer(mine, count):
        words = [sys.executable, "-c", WRITER, str(path), mine, str(count)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    with writer("a", 4) as one, writer("b", 4) as other, writer("c", 10**6) as endless:
        told = [endless.stdout.readline() for _ in range(2)]
        endless.kill()  # wherever it is
        told += endless.stdout.readlines()
        assert one.wait() == other.wait() == 0
    found = entries(path)
    assert {f"{mine}{i}" for mine in "ab" for i in range(4)} <= set(found)
    assert {f"c{line.strip()}" for line in told if line.endswith("\n")} <= set(found)
    assert len(found) == len(set(found))
    assert publish(path, "after")[1]


def test_an_entry_of_the_last_version_stays_and_can_be_entered_again(path):
    """Version 3 knew only totals of what was published."""
    publish(path, "a")
    content, key = json.loads(path.read_text()), path.with_name("ledger.json.key")
    content["accounts"]["default"]["published"][0]["totals"] = [["a gram"]]
    text = json.dumps({k: v for k, v in content.items() if k != "seal"} | {"bayesrecon_ledger": 3})
    seal = ledger_module._seal(bytes.fromhex(json.loads(key.read_text())["key"]), text)
    path.write_text(f'{text[:-1]}, "seal": "{seal}"}}')
    with opened_ledger(path) as book:
        (entry,) = book.published("default")
        assert entry["released"] == [
            {"rows": [], "draws": None, "worth": None, "guaranteed": False, "grams": ["a gram"]}
        ]
    assert publish(path, "a") == ("1", False)
    with opened_ledger(path) as book:
        assert book.published("default")[0]["released"][0]["grams"] == ["a gram"]  # who knows nothing changes nothing
        book.publish(ANYBODY, [file("a", "a row")])
    with opened_ledger(path, only_read=True) as book:
        assert book.published("default")[0]["released"][0]["rows"] == ["a row"]
    assert json.loads(path.read_text())["bayesrecon_ledger"] == 4


def test_a_full_disk_and_a_killed_process_keep_what_was_published(path, monkeypatch):
    publish(path, "a")
    with monkeypatch.context() as patch:
        patch.setattr(ledger_module, "write_whole", full_disk)
        with pytest.raises(OSError, match="No space"):
            publish(path, "b")
    assert entries(path) == ["a"]
    with monkeypatch.context() as patch:
        patch.setattr(ledger_module.LedgerFile, "_write_key", full_disk)  # after the ledger was written
        with pytest.raises(OSError, match="No space"):
            publish(path, "c")
    assert entries(path) == ["a", "c"]
    path.write_text(path.read_text().replace('"a"', '"b"'))
    assert "was changed since" in refusal(path)


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_ledger_of_the_last_version_goes_on_and_the_last_version_refuses_this_one(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(ledger_module, "_VERSION", 2)
        enter(path, release(table(0)), budget=200.0)
    publish(path, "a")
    assert (spent(path), entries(path)) == (100, ["a"])
    monkeypatch.setattr(ledger_module, "_VERSION", 2)
    assert "newer bayesrecon" in refusal(path)


def test_worth_and_epsilon_stand_beside_each_other(path):
    publish(path, "a")
    enter(path, release(table(0)), budget=200.0)
    with opened_ledger(path) as book:
        book.enter_guarantee(ANYBODY, Guarantee(0.1, 1e-6), "model", None)
        lines = book.state(ANYBODY)
        assert "knows no release of account other; its accounts: default" in book.state(Whose("other"))[0]
    assert lines[1] == "worth spent: 100 draws, of a budget of 200"
    assert "zCDP" in lines[2]
    assert lines[3] == "epsilon holds for what came after only, and worth and epsilon do not add up"
