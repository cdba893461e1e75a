"""Results as files, by the suffix of their name."""

import json
from pathlib import Path
from typing import Any

from bayesrecon.errors import BayesreconError


def check_suffix(path: Path | None, allowed: tuple[str, ...], option: str) -> None:
    """Refuse a file name before the work, not after it."""
    if path is None:
        return
    if path.suffix not in allowed:
        raise BayesreconError(f"{option} {path}: the name must end in {' or '.join(allowed)}")
    if path.is_dir():
        raise BayesreconError(f"{option} {path}: this is a directory")
    if not path.parent.is_dir():
        raise BayesreconError(f"{option} {path}: the folder {path.parent} does not exist")


def save_result(result: Any, path: Path) -> None:
    """Write a recovery, a reconstruction or a diagnosis by its suffix, whole or not at all."""
    from bayesrecon.files import write_whole

    if path.suffix == ".nc":
        result.save(path)
    elif path.suffix == ".json":
        from bayesrecon.cli.console import nulls

        text = json.dumps(nulls(result.to_dict()), indent=2, allow_nan=False) + "\n"
        write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    else:
        write_whole(path, lambda temporary: result.to_dataframe().to_csv(temporary))
