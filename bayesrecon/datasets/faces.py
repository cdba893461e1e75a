"""CelebA: faces with forty attributes (Liu, Luo, Wang and Tang 2015), aligned and cropped."""

from pathlib import Path

import numpy as np

from bayesrecon.datasets.data_files import LabelledData, checked_folder, files_of_part, opened
from bayesrecon.datasets.pictures import files_of, pictures
from bayesrecon.errors import BayesreconError

INNER, ATTRIBUTES, PARTITION = "img_align_celeba", "list_attr_celeba.txt", "list_eval_partition.txt"
PARTS = {"train": ("0",), "validation": ("1",), "test": ("2",), "all": ("0", "1", "2")}
_MOST = 2**26  # bytes: CelebA's lists have 27 million


def celeba(folder: str | Path, part: str = "train", *, side: int = 32) -> LabelledData:
    """Faces in three colours from 0 to 1, and their 40 binary attributes.

    Args:
        folder: folder with `img_align_celeba` (a folder, or `img_align_celeba.zip`), `list_attr_celeba.txt` and, unless
            `part` is "all", `list_eval_partition.txt`.
        part: "train" (162,770 images), "validation" (19,867), "test" (19,962) or "all", in the order of the list.
        side: height and width of the returned images in pixels. The files have 218 by 178.

    Returns:
        `x (N, 3 side^2)` and attributes `y (N, 40)`, zeros and ones.

    Raises:
        BayesreconError: the folder or a file does not exist, a file is damaged, or the lists do not match.

    >>> celeba("no/such/folder")
    Traceback (most recent call last):
    bayesrecon.errors.BayesreconError: no/such/folder: no such folder; name the one that holds the data files
    """
    path, codes = checked_folder(folder), files_of_part(part, PARTS)
    head, *rows = _lines(path, ATTRIBUTES)
    names, entries = tuple(rows[0].split()) if rows else (), [row.split() for row in rows[1:]]
    if not head.strip().isdigit() or int(head) != len(entries) or not names or not entries:
        raise BayesreconError(f"{path}: {ATTRIBUTES} says {head[:20]!r} images and lists {len(entries)}")
    invalid = next((e for e in entries if len(e) != 1 + len(names) or not set(e[1:]) <= {"1", "-1"}), None)
    if invalid is not None:
        raise BayesreconError(f"{path}: {ATTRIBUTES} has {invalid[0]} without {len(names)} attributes of 1 or -1")
    if part != "all":
        part_of_image = dict(line.split() for line in _lines(path, PARTITION) if len(line.split()) == 2)
        entries = [e for e in entries if part_of_image.get(e[0]) in codes]
        if not entries:
            raise BayesreconError(f"{path}: {PARTITION} has no image of part {part!r}")
    with files_of(path, [INNER]) as files:
        x = pictures(files, [f"{INNER}/{e[0]}" for e in entries], "JPEG", side=side, colours=True)
    y = np.array([[int(v == "1") for v in e[1:]] for e in entries], np.int64)
    return LabelledData("CelebA", x.reshape(len(x), -1), y, names, shape=x.shape[1:])


def _lines(folder: Path, name: str) -> list[str]:
    with opened([folder], [name], "a list of CelebA") as (path, stream):
        content = stream.read(_MOST + 1)
    if len(content) > _MOST:
        raise BayesreconError(f"{path}: more than {_MOST:,} bytes, refused")
    try:
        return content.decode("utf-8").splitlines() or [""]
    except UnicodeDecodeError:
        raise BayesreconError(f"{path} is not a text file; download it again") from None
