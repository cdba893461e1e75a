"""Files that a program includes are those in its folder, and no others."""

import pytest

pytest.importorskip("lark", reason="lark is not installed: pip install 'bayesrecon[stan]'")

from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_stan

DATA = "data { int N; vector[N] y; }"


def test_a_program_is_read_with_the_files_beside_it(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "data.stan").write_text(DATA)
    (tmp_path / "parameters.stan").write_text("#include parts/data.stan\nparameters { real mu; }")
    (tmp_path / "a.stan").write_text('#include "parameters.stan" // all of it\nmodel { y ~ normal(mu, 1); }')
    assert tuple(from_stan(tmp_path / "a.stan").fields) == ("y",)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("#include <../b.stan>", "line 1, #include ../b.stan: it is not in the folder"),
        ("#include /etc/passwd", "is not in the folder"),
        ("#include link.stan", "is not in the folder"),
        ("#include none.stan", "there is no such file"),
        ("#include a.stan", "more than 10 deep"),
    ],
)
def test_no_other_file_is_opened(tmp_path, line, why):
    folder = tmp_path / "program"
    folder.mkdir()
    (tmp_path / "b.stan").write_text(DATA)
    (folder / "link.stan").symlink_to(tmp_path / "b.stan")
    (folder / "a.stan").write_text(f"{line}\nparameters {{ real mu; }} model {{ y ~ normal(mu, 1); }}")
    with pytest.raises(BayesreconError, match=why):
        from_stan(folder / "a.stan")


def test_files_that_include_each_other_twice_end(tmp_path):
    for k in range(9):
        (tmp_path / f"{k}.stan").write_text(f"#include {k + 1}.stan\n" * 10)
    (tmp_path / "9.stan").write_text("")
    with pytest.raises(BayesreconError, match="included files are too large"):
        from_stan(tmp_path / "0.stan")


def test_a_text_has_no_files_beside_it():
    with pytest.raises(BayesreconError, match="#include needs a program from a file"):
        from_stan("#include a.stan\nmodel { }")
